"""Mistakes of users on the command line, and the check that each is refused in time."""

import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from polyplink.core import workers
from tests.cli.calls import assert_refused, polyplink

MISTAKES = {
    # RUN and DATA are a trained run and its data folder; broken.pth is a file without weights.
    "import real-colon nowhere out": "nowhere",
    "import vgg nowhere out": "no format 'vgg'",
    "import video nowhere out": "boxes in a recording are detected, not imported: `polyplink run",
    "import COCO boxes.json out": "no format 'COCO'; did you mean coco",
    "evaluate RUN DATA --task retrieval --metric FR": "metric 'FR' is of the task counting, which",
    "import coco DATA out": "is already a data folder, which needs no import",
    "import csv film.mp4 out": "is a video and holds no boxes; count the polyps of a video with",
    "import csv boxes.json out": "in the format csv; `polyplink import coco boxes.json DATA`",
    "import csv boxes.json out --size 64": "--size 64 is not a size",
    "import csv boxes.json out --cases x": "csv takes no --cases; leave it out",
    "import csv boxes.json out --datasets x": "--datasets x is not a pair",
    "count RUN film.mp4": "is a file, but a folder is expected; count the polyps of a video with",
    "prepare boxes.json": "with `polyplink import coco boxes.json DATA`",
    "train ntssl DATA --init-from RUN": "build theirs with --set encoder.frame_encoder=timm:",
    "train sfe-small DATA --init-from encoder-v1": "--set encoder.stages=[2,3]",
    "convert DATA cocoa out": "did you mean coco",
    "count RUN DATA --low 0.9 --out x": "low 0.9, the score that continues a track, is above high",
    "count RUN DATA --out RUN": "holds a run of `train`",
    "calibrate RUN DATA --out RUN": "holds a run of `train`",
    "train ntssl-demo DATA --out RUN": "holds a training run already",
    "convert DATA ldpolyp out": "TrainValid_<id>",
    "doctor nowhere": "no folder nowhere",
    "prepare nowhere": "no folder nowhere",
    "prepare DATA --recipe ntsll": "did you mean ntssl",
    "prepare DATA --part ta": "no part 'ta'",
    "prepare DATA --no-crops --tracker nearby": "no tracker 'nearby'",
    "simulate": "no output folder; name one",
    "simulate out --check": "--check writes nothing",
    "simulate --check --preset smoke": "does not read --preset; leave --preset out",
    "simulate out --preset tinny": "no preset 'tinny'; did you mean tiny",
    "simulate out --write table": "no way to write 'table'; did you mean tables",
    "simulate out --difficulty 2": "difficulty is 2",
    "train ntssl-demo nowhere": "no folder nowhere",
    "train ntssl-demo DATA --out none --resume": "no checkpoint none",
    "train simclr nowhere": "no recipe 'simclr'",
    "train none.py DATA": "no file none.py",
    "train --help-recipe ntsll": "did you mean ntssl?",
    "train ntssl nowhere --set los.form=x": "did you mean loss.form",
    "train ntssl-demo DATA --device cuda:77": "no device 'cuda:77'",
    "train ntssl-demo DATA --device gpu": "no device 'gpu' here; use --device auto",
    "train ntssl-demo DATA --part night": "no part 'night'",
    "train ntssl-demo DATA --init-from gone": "no weights at gone",
    "train ntssl-demo DATA --polyps-from RUN": "bags.kind=temporal does not use polyps",
    "merge out nowhere": "no folder nowhere",
    "merge out DATA --histology-map paper": "no histology map 'paper'; did you mean papers?",
    "split nowhere --shares train=1": "no folder nowhere",
    "split DATA --shares train=0.5": "add up to 0.5",
    "split DATA --shares train:1": "is not a list of parts",
    "split DATA --shares a=0.2,b=0.2,c=0.1,d=0.2,e=0.1,f=0.2": "6 parts for 5 patients",
    "detect nowhere out --detector d.onnx": "no recording nowhere",
    "detect film.mp4 --out data": "OUT is an argument here: type `polyplink detect SOURCE OUT`",
    "index build RUN DATA --out x": "the output folder is --index here",
    "detect DATA out --detector sim": "no detector file sim; check the path, or give detector-v1",
    "detect film.mp4 out --detector gone.py:find": "no file gone.py; give FILE.py:NAME of",
    "evaluate-detector gone.py:find DATA": "no file gone.py",
    "calibrate RUN --stills DATA --detector gone.py:find": "no file gone.py",
    "detect film.mp4 out --detector sim:good": "changes annotated boxes, and film.mp4 is a file",
    "detect DATA out --detector sim:good --fps 5": "--fps is for recordings",
    "run nowhere": "no recording nowhere; give a video or a folder",
    "run https://host/film.mp4": "film.mp4 is at an address, not on this machine; download it",
    "run film.mp4 --weights gone": "no weights at gone",
    "run DATA --weights RUN --detector sim:goood": "did you mean good?",
    "run film.mp4 --weights RUN --detector none.onnx": "no detector file none.onnx",
    "run boxes.json --weights RUN --boxes coko": "did you mean coco?",
    "run boxes.json": "count them with `polyplink run boxes.json --boxes coco`",
    "run boxes.json --boxes csv": "in the format csv; `polyplink run boxes.json --boxes coco`",
    "run DATA --boxes csv": "counts it, without --boxes",
    "run film.mp4 --boxes coco": "`polyplink run BOXES --boxes coco --recording film.mp4`",
    "run film.mp4 --boxes cocoa": "no format 'cocoa'; did you mean coco",
    "run film.mp4 --boxes boxes.json": "`polyplink run boxes.json --boxes FORMAT` counts it",
    "run film.mp4 --first-frame 1": "are for boxes; add --boxes FORMAT",
    "run film.mp4 --out boxes.json": "--out boxes.json is a file; name a folder",
    "calibrate gone DATA": "no weights at gone",
    "calibrate RUN": "no data to calibrate on",
    "calibrate RUN DATA --stills DATA": "both DATA and --stills are given",
    "calibrate RUN --stills DATA": "no detector to calibrate for",
    "calibrate RUN --stills DATA --detector d.onnx --polyps 6-3": "'6-3' is not a range",
    "calibrate RUN DATA --truth nowhere": "no folder nowhere",
    "calibrate RUN DATA --empty nowhere --seed 3": "--empty and --seed: only for --stills",
    "calibrate RUN DATA --keep 0.9": "--keep is for the false alarms of a detector, and DATA holds",
    "calibrate RUN --stills DATA --detector d.onnx --truth DATA": "--truth is for DATA",
    "train-detector nowhere": "no folder nowhere",
    "train-detector DATA --out x": "give --out NAME.onnx",
    "train-detector DATA --side 100": "--side 100 is not a multiple of 32; give --side 96",
    "train-detector DATA --init gone.onnx": "no file gone.onnx",
    "evaluate-detector d.onnx nowhere": "no folder nowhere",
    "models detector-v0": "did you mean detector-v1?",
    "evaluate-detector d.onnx DATA": "no detector file d.onnx",
    "review nowhere": "no folder nowhere; give a folder that `polyplink run`",
    "review film.mp4": "count the polyps of a video with `polyplink run film.mp4`",
    "hand-off nowhere": "no folder nowhere",
    "learn-from gone nowhere": "no weights at gone",
    "learn-from RUN nowhere": "no folder nowhere",
    "recipes show ntsll": "did you mean ntssl",
    "reproduce ntssl/9 DATA": "no published table 'ntssl/9'",
    "reproduce ntssl/1 nowhere": "no folder nowhere",
    "reproduce ntssl/1": "no data folder",
    "reproduce ntssl/11 DATA": "did you mean ntssl/1",
    "reproduce ntssl/1 DATA --only sam": "no row of 'sam'",
    "reproduce ntssl/1 DATA --part night": "no part 'night'",
    "reproduce ntssl/1 DATA --grid fine": "no grid",
    "reproduce ntssl/1 DATA --weights ntssl": "names no file",
    "reproduce ntssl/1 DATA --weights ntsll=RUN": "did you mean ntssl?",
    "reproduce ntssl/1 DATA --weights ntssl=gone": "no weights at gone",
    "reproduce ntssl/1 DATA --only ntssl --weights endovit=RUN": "no row of endovit is computed",
    "reproduce ntssl/1 DATA --dry-run --out x": "--dry-run writes nothing to --out",
    "reproduce list DATA": "`reproduce list` reads no data folder",
    "demo broken.pth": "broken.pth holds something else",
    "embed nowhere nowhere": "no weights at nowhere",
    "embed encoder.onnx DATA": "no exported encoder",
    "embed RUN DATA --out v.csv": "has another ending; give --out v.parquet",
    "embed broken.onnx DATA": "the folder of an exported encoder needs",
    "embed RUN nowhere": "no folder nowhere",
    "embed RUN DATA --address 127.0.0.1:6379": "--address is for a Ray cluster",
    "embed RUN DATA --engine ray --address 127.0.0.1:1": "no Ray cluster at 127.0.0.1:1 ",
    "embed RUN DATA --shard 3/2": "no such shard; give I/N, with I from 1 to N",
    "embed RUN DATA --shard 0/2": "no such shard",
    "embed RUN DATA --shard half": "no such shard",
    "embed RUN DATA --precision int8": "has no 8-bit weights",
    "export RUN DATA": "exists already; name a new folder",
    "export RUN encoder.onnx --part train": "--part train needs data; add --in",
    "export RUN encoder.onnx --data DATA": "--data is for the precisions int8 and bf16",
    "export RUN encoder.onnx --precision int8": "needs crops for calibration; add --data DATA",
    "export RUN encoder.onnx --int8 x --data y": "give one of them",
    "export gone encoder.onnx": "no weights at gone",
    "index build gone DATA": "no weights at gone",
    "index build RUN DATA --index DATA": "holds no index; name another folder with --index",
    "index add RUN nowhere": "no folder nowhere",
    "figures RUN DATA --out boxes.json": "boxes.json is a file; name a folder",
    "search gone 001-001:00000": "no weights at gone",
    "search RUN 001-001:00000": "is not an index; make one",
    "live nowhere --weights gone": "no weights at gone",
    "live none.mp4 --weights RUN": "no recording",
    "live film.mp4 --weights RUN --boxes boxes.json --detector x.onnx": "both a detector and boxes",
    "live - --weights RUN --detector gone.py:find": "both a detector and boxes are given",
    "live - --weights RUN --boxes boxes.json": "--boxes is given beside -; leave it out",
    "live rtsp://me:secret@x/1 --weights RUN --boxes boxes.json": "given beside rtsp://x/1;",
    "study ntsll DATA": "no recipe 'ntsll'; did you mean ntssl",
    "study ntssl-demo ntssl-demo DATA": "have one name",
    "study ntssl-demo DATA --part train": "is in 'train' and in 'train'",
    "study ntssl-demo DATA --task size": "a study has no task size",
    "study ntssl-demo DATA --set optim.epoch=1": "did you mean optim.epochs?",
    "count nowhere nowhere": "no weights at nowhere",
    "count RUN nowhere": "no folder nowhere",
    "evaluate DATA RUN": "give the weights before it, for example `encoder-v1 ",
    "evaluate RUN DATA --grid papr": "no grid 'papr'; did you mean paper",
    "evaluate RUN DATA --part train": "trained or validated on 4 of these procedures",
    "evaluate RUN DATA --part night": "no part 'night' in splits.json",
    "evaluate RUN DATA --choose-on eval": "is in 'eval' and in 'eval'",
    "evaluate RUN DATA --task reidd": "no task 'reidd'; did you mean reid",
    "evaluate RUN DATA --task size": "column size_mm is empty, but the size task",
    "evaluate RUN DATA --task reid --curve-csv": "--curve-csv is for counting",
    "evaluate RUN DATA --task size --choose-on eval": "--choose-on is for counting",
    "evaluate RUN DATA --task reid --clusterer ap": "--clusterer is for counting",
    "evaluate RUN DATA --task retrieval --grid demo": "--grid is for counting",
    "evaluate RUN DATA --task reid --purpose link": "--purpose is for counting",
    "evaluate RUN DATA --task reid --visual sigmoid": "--visual is for counting",
    "evaluate RUN DATA --task size --time frames": "--time is for counting",
    "study ntssl-demo DATA --task retrieval --grid demo": "--grid is for counting",
    "evaluate RUN DATA --task reid --without-own": "--without-own is for retrieval",
    "evaluate RUN DATA --clusterer kmeans": "no clusterer 'kmeans'; choose one of: temporal_ap",
    "evaluate RUN DATA --clusterer gone.py:Mutual": "no file gone.py",
    "evaluate RUN DATA --metric made-up": "no metric 'made-up'",
    "evaluate RUN DATA --columns mpa": "there is no figure 'mpa'; --columns takes mAP",
    "probe sizes RUN DATA": "did you mean size",
    "probe size RUN DATA": "column size_mm is empty",
    "probe size gone DATA": "no weights at gone",
    "probe size RUN DATA --split s.json --split-seed 1": "draws a split, and --split is one",
    "figures gone DATA": "no weights at gone",
    "figures RUN DATA --only maps": "no figure 'maps'; did you mean map",
    "figures RUN DATA --only map --part night": "no part",
    "figures RUN DATA --beside x": "names no file",
    "figures RUN DATA --only map --only pca --clusterer ap": "and --only names neither; leave it",
    "weights add broken.pth": "neither safetensors nor",
    "weights add gone": "no file gone",
    "weights add broken.pth --stage 1": "--stage is for --timm",
    "weights add broken.pth --ring 0.4": "--ring is for --stage",
    "weights adapt gone DATA --as x": "no weights at gone",
    "weights adapt RUN DATA --as x --whiten --in-motion 3 --tone 1": "--in-motion goes with",
    "weights adapt RUN DATA --as x --whiten --in-motion 3 --stride 2": "--stride: tracklets are",
    "weights show endofm": "not on this machine",
    "weights cost endofn": "did you mean endofm",
    "weights cost endovit --size 256": "endovit only takes images of 224 pixels",
    "bench trackles": "did you mean tracklets",
    "bench bags --profile p": "is for the path step",
    "bench bags --device cuda": "no GPU is used for bags",
}
BROKEN_FILES = ("broken.onnx", "broken.pth", "film.mp4", "boxes.json")  # with other contents
SLOW_MISTAKES = (  # detected by heavy libraries
    "count RUN DATA --low 0.9 --out x",
    "run DATA --weights RUN --detector sim:goood",
    "run film.mp4 --weights RUN --detector none.onnx",
    "calibrate RUN --stills DATA --detector gone.py:find",
    "figures RUN DATA --out boxes.json",
    "run boxes.json --weights RUN --boxes coko",
    "embed RUN DATA --precision int8",
    "embed RUN DATA --engine ray --address 127.0.0.1:1",
    "embed RUN DATA --shard 3/2",
    "embed RUN DATA --shard 0/2",
    "embed RUN DATA --shard half",
    "train ntssl-demo DATA --device cuda:77",
    "weights add broken.pth",
    "bench bags --device cuda",
)


def assert_all_refused(lines: Sequence[str], run: str, data: str) -> None:
    """Check that nothing is written into the current folder, and that no process is started."""
    for name in BROKEN_FILES:
        Path(name).write_bytes(b"no weights")
    for line in lines:
        words = [{"RUN": run, "DATA": data}.get(word, word) for word in line.split()]
        try:
            with patch.object(workers, "start_server") as start_server:
                assert_refused(polyplink(*words), MISTAKES[line])
            start_server.assert_not_called()
            assert {path.name for path in Path().iterdir()} == {*BROKEN_FILES}
        except AssertionError as error:
            raise AssertionError(line) from error


class HeavyLibraries:
    """An importer that has no module, and refuses heavy libraries to polyplink."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if path is None and name in ("torch", "numba", "sklearn", "timm", "matplotlib"):
            caller = sys._getframe(1)
            while "importlib" in caller.f_code.co_filename:
                assert caller.f_back is not None
                caller = caller.f_back
            # polars only checks that they exist
            assert "polyplink" not in caller.f_globals["__name__"], f"{name} is imported"


def assert_refused_early(lines: Sequence[str], run: str, data: str) -> None:
    """Check also that no heavy library is imported."""
    assert "torch" not in sys.modules
    sys.meta_path.insert(0, HeavyLibraries())
    assert_all_refused(lines, run, data)
