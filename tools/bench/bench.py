"""What the benchmark scripts share: building, statistics with intervals, tables. Needs nothing but Python."""

import json
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

ROOT = Path(__file__).resolve().parents[2]


def build(target: str, folder: Optional[Path]) -> Path:
    """The path of a benchmark program. Without a folder it is built in build/bench; in a folder that is given it has to
    be there."""
    if folder is not None:
        program = folder / target
        if not program.is_file():
            sys.exit(f"no {target} in {folder}; build it there: cmake -DSTAGECRAFT_BENCH=ON {folder} && "
                     f"ninja -C {folder} {target}")
        return program
    folder = ROOT / "build/bench"
    configure = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-Wno-dev", "-DCMAKE_BUILD_TYPE=Release",
                 "-DSTAGECRAFT_BENCH=ON", "-DSTAGECRAFT_TESTS=OFF"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, target], check=True, stdout=sys.stderr)
    return folder / target


def bootstrap(samples: Sequence[Any], statistic: Callable[[Sequence[Any]], float], resamples: int = 2000,
              level: float = 0.95) -> tuple[float, float]:
    """The percentile interval of a statistic over samples drawn with replacement. Seeded: the same samples, the same
    interval."""
    draw = random.Random(1)
    values = sorted(statistic(draw.choices(samples, k=len(samples))) for _ in range(resamples))
    tail = (1 - level) / 2
    return values[int(tail * resamples)], values[min(resamples - 1, int((1 - tail) * resamples))]


def ratio_of_medians(pairs: Sequence[tuple[float, float]]) -> float:
    """Median of the first over median of the second."""
    return statistics.median(p[0] for p in pairs) / statistics.median(p[1] for p in pairs)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, the first to the left and the others to the right; the first row is the head."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def write_json(path: Optional[Path], result: Any) -> None:
    if path is not None:
        path.write_text(json.dumps(result, indent=1) + "\n")
