"""What a newcomer waits for: a fresh clone, nothing installed, nothing compiled, `make demo`, then `make test`.

python benchmarks/fresh_clone.py    # clones the commit that is checked out; writes results/fresh_clone.json
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from harness import ROOT, command, record


def main() -> None:
    """Clone, run, record."""
    results: dict = {}
    with tempfile.TemporaryDirectory() as temporary:
        clone = Path(temporary) / "headway"
        command(["git", "clone", "--quiet", str(ROOT), str(clone)])
        for target in ("demo", "test"):
            done = command(["make", target], cwd=clone, env={"XDG_CACHE_HOME": f"{temporary}/cache"})
            results[f"make {target}"] = {"wall_s": round(done.wall_s, 1)}
        found = re.search(r"(\d+) passed(?:, (\d+) skipped)?", done.output)
        results["make test"] |= {"passed": int(found[1]), "skipped": int(found[2] or 0)} if found else {}
    print(results)
    print(f"wrote {record('fresh_clone', results, config={}).name}")


if __name__ == "__main__":
    main()
