# polyplink on the CPU:
#   docker build -t polyplink .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" polyplink run colonoscopy.mp4
FROM python:3.11-slim AS build
RUN pip install --no-cache-dir build
COPY . /source
RUN python -m build --wheel --outdir /wheels /source

FROM python:3.11-slim
COPY constraints.txt /tmp/
COPY --from=build /wheels /tmp/wheels
# torch and torchvision first, for PyPI has their CUDA builds: 4 GB more.
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt \
        --index-url https://download.pytorch.org/whl/cpu torch torchvision \
    && pip install --no-cache-dir --constraint /tmp/constraints.txt \
        "$(echo /tmp/wheels/*.whl)[detect,encoders,export,foundation,serve]" \
    && rm -r /tmp/wheels
ENV OMP_WAIT_POLICY=PASSIVE MPLCONFIGDIR=/tmp NUMBA_CACHE_DIR=/tmp POLYPLINK_HOME=/work/.polyplink
RUN useradd --create-home polyplink
USER polyplink
WORKDIR /work
ENTRYPOINT ["polyplink"]
CMD ["--help"]
