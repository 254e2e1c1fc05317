// Embeds tracklets with an exported encoder (`polyplink export WEIGHTS FOLDER`) and onnxruntime.
//
//     g++ -std=c++17 -I ORT/include embed.cpp -L ORT/lib -l onnxruntime -o embed
//     ./embed FOLDER CROPS LENGTH...
//
// CROPS holds the crops of all tracklets, one after the other: side x side x 3 bytes each, rows
// from the top, red green blue; `side` is the height of the input of frames.onnx ("crops" in
// config.json). Each LENGTH is the number of crops of one tracklet. Prints one vector a line.
// Tracklets show one polyp if the cosine of their vectors is high. ORT_DISABLE_TELEMETRY=1 in the
// environment keeps onnxruntime from reporting the session to its makers.

#include <onnxruntime_c_api.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

static const OrtApi* ort = OrtGetApiBase()->GetApi(1);  // version 1 is part of all later ones

static void check(OrtStatus* status) {
  if (status == nullptr) return;
  std::fprintf(stderr, "onnxruntime: %s\n", ort->GetErrorMessage(status));
  std::exit(1);
}

static void stop(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(2);
}

struct Tensor {  // float32, rows x columns
  std::vector<float> values;
  int64_t rows = 0, columns = 0;
};

class Graph {
 public:
  Graph(OrtEnv* env, const std::string& path) {
    OrtSessionOptions* options = nullptr;
    check(ort->CreateSessionOptions(&options));
    check(ort->SetIntraOpNumThreads(options, 1));  // one thread a graph; run blocks in parallel
    check(ort->CreateSession(env, path.c_str(), options, &session_));
    ort->ReleaseSessionOptions(options);
    check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory_));
  }
  ~Graph() {
    ort->ReleaseMemoryInfo(memory_);
    ort->ReleaseSession(session_);
  }
  Graph(const Graph&) = delete;

  // Height of the crops that the graph reads: the second axis of its first input.
  int64_t side() const {
    OrtTypeInfo* type = nullptr;
    const OrtTensorTypeAndShapeInfo* shape = nullptr;
    check(ort->SessionGetInputTypeInfo(session_, 0, &type));
    check(ort->CastTypeInfoToTensorInfo(type, &shape));
    int64_t axes[4] = {0, 0, 0, 0};
    check(ort->GetDimensions(shape, axes, 4));
    ort->ReleaseTypeInfo(type);
    return axes[1];
  }

  template <typename T>
  OrtValue* input(T* data, const std::vector<int64_t>& axes, ONNXTensorElementDataType type) const {
    size_t bytes = sizeof(T);
    for (int64_t axis : axes) bytes *= static_cast<size_t>(axis);
    OrtValue* value = nullptr;
    check(ort->CreateTensorWithDataAsOrtValue(memory_, data, bytes, axes.data(), axes.size(), type,
                                              &value));
    return value;
  }

  // The only output; the inputs are released.
  Tensor run(const std::vector<const char*>& names, const std::vector<OrtValue*>& inputs,
             const char* output) const {
    OrtValue* found = nullptr;
    check(ort->Run(session_, nullptr, names.data(), inputs.data(), inputs.size(), &output, 1,
                   &found));
    OrtTensorTypeAndShapeInfo* shape = nullptr;
    int64_t axes[2] = {0, 0};
    float* data = nullptr;
    check(ort->GetTensorTypeAndShape(found, &shape));
    check(ort->GetDimensions(shape, axes, 2));
    check(ort->GetTensorMutableData(found, reinterpret_cast<void**>(&data)));
    Tensor result{{data, data + axes[0] * axes[1]}, axes[0], axes[1]};
    ort->ReleaseTensorTypeAndShapeInfo(shape);
    ort->ReleaseValue(found);
    for (OrtValue* value : inputs) ort->ReleaseValue(value);
    return result;
  }

 private:
  OrtSession* session_ = nullptr;
  OrtMemoryInfo* memory_ = nullptr;
};

int main(int count, char** given) {
  if (count < 4) stop("usage: embed FOLDER CROPS LENGTH...");
  const std::string folder = given[1];
  std::vector<int64_t> lengths;
  for (int i = 3; i < count; ++i) {
    lengths.push_back(std::atoll(given[i]));
    if (lengths.back() < 1) stop(std::string("LENGTH ") + given[i] + " is not 1 or more");
  }
  const int64_t n = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});

  OrtEnv* env = nullptr;
  check(ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "embed", &env));
  {
    const Graph frames(env, folder + "/frames.onnx"), tracklets(env, folder + "/tracklets.onnx");
    const int64_t side = frames.side(), bytes = side * side * 3;
    std::ifstream file(given[2], std::ios::binary);
    std::vector<uint8_t> crops{std::istreambuf_iterator<char>(file), {}};
    if (static_cast<int64_t>(crops.size()) != n * bytes)
      stop("CROPS has " + std::to_string(crops.size()) + " bytes, not " + std::to_string(n) +
           " crops of " + std::to_string(bytes));

    // A frame at a time, as they come from a running procedure; keep its features.
    Tensor features;
    for (int64_t i = 0; i < n; ++i) {
      OrtValue* crop = frames.input(crops.data() + i * bytes, {1, side, side, 3},
                                    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8);
      const Tensor one = frames.run({"crops"}, {crop}, "features");
      features.values.insert(features.values.end(), one.values.begin(), one.values.end());
      features.columns = one.columns;
    }
    // All tracklets at once, of any lengths; the cost grows with the square of all crops.
    const int64_t b = static_cast<int64_t>(lengths.size());
    const Tensor vectors = tracklets.run(
        {"features", "lengths"},
        {tracklets.input(features.values.data(), {n, features.columns},
                         ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT),
         tracklets.input(lengths.data(), {b}, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)},
        "vectors");
    for (int64_t row = 0; row < vectors.rows; ++row)
      for (int64_t k = 0; k < vectors.columns; ++k)
        std::printf("%.7g%c", vectors.values[row * vectors.columns + k],
                    k + 1 < vectors.columns ? ' ' : '\n');
  }
  ort->ReleaseEnv(env);
}
