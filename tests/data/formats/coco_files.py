"""COCO files for tests."""

import json
from pathlib import Path
from typing import Any


def image(number: int, name: str, **fields: Any) -> dict[str, Any]:
    return {"id": number, "file_name": name, "width": 64, "height": 48} | fields


def box(number: int, image_id: Any, **fields: Any) -> dict[str, Any]:
    record = {"id": number, "image_id": image_id, "category_id": 1, "bbox": [1, 2, 30, 20]}
    return record | {"area": 600, "iscrowd": 0} | fields


def write(path: Path, images: list[Any], boxes: list[Any], **lists: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    categories = [{"id": 7, "name": "tool"}, {"id": 1, "name": "polyp"}]
    content = {"images": images, "annotations": boxes, "categories": categories} | lists
    path.write_text(json.dumps(content))
    return path
