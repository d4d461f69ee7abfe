"""Measures a replica: the time from nothing to the first recall, and from a push to an answer with it.

    python -m tests.support.bench.replica STORE [--latency MS] [--bandwidth MB/S] [--pushes N]

The S3 server is moto's, in a process of its own, seen through a proxy that adds latency and bounds the bandwidth. The
pushes are of a small store that grows by a segment each time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import httpx
import numpy as np

from helix.sdk.memory import Memory
from helix.snapshot import manifest as manifests
from helix.snapshot.replication.pull import pull_store
from helix.snapshot.replication.push import push_store
from helix.snapshot.replication.replica import complete_replica, list_later, open_replica
from tests.contract.test_sync import AWS, current, grow, make
from tests.support.processes import pick_port, start_helix, wait_until
from tests.support.s3_proxy import S3Proxy, run_proxy
from tests.support.serving import get_status

QUESTION = "what did we decide about the deployment"


@contextmanager
def run_server() -> Iterator[str]:
    """Run an S3 server with an empty bucket: host:port."""
    port = pick_port()
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        wait_until(60, lambda: get_status(f"http://127.0.0.1:{port}/moto-api/") == 200)
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1")
        client.create_bucket(Bucket="memories")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def measure_opening(store: Path, url: str, work: Path) -> dict[str, Any]:
    """Return the seconds from nothing to the first recall and to the whole store, fetched in stages and at once."""
    files = {file.path: file.bytes for file in manifests.load(store, current(store)).files()}
    later = list_later(manifests.load(store, current(store)))
    report: dict[str, Any] = {
        "files": len(files),
        "mb": round(sum(files.values()) / 1e6, 1),
        "mb_first": round(sum(size for path, size in files.items() if path not in later) / 1e6, 1),
    }

    def run(name: str, steps: dict[str, Callable[[Path], object]]) -> None:
        root, began = work / name, time.perf_counter()
        for step, call in steps.items():
            call(root)
            report[f"{name}_{step}"] = round(time.perf_counter() - began, 2)
        shutil.rmtree(root)

    ask = lambda root: Memory(root).recall(QUESTION).items[0]  # noqa: E731
    ask(store)  # imports and caches are warm for both
    run("whole", {"fetched": lambda root: pull_store(url, root), "first_recall": ask})
    run(
        "staged",
        {
            "fetched": lambda root: open_replica(url, root),
            "first_recall": ask,
            "whole": lambda root: complete_replica(url, root),
        },
    )
    return report


def measure_following(url: str, work: Path, pushes: int) -> dict[str, Any]:
    """Return the seconds from the end of a push to a recall that is answered with it."""
    ours, root, log, port = make(work / "ours"), work / "follower", work / "log", pick_port()
    push_store(ours, url)
    serving = start_helix(log, "serve", "--replica-of", url, "--store", root, "--port", port)
    seconds = []
    try:
        wait_until(120, lambda: get_status(f"http://127.0.0.1:{port}/readyz") == 200, log)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            for turn in range(pushes):
                name = grow(ours, [f"remark number {turn}"], drop=1)
                push_store(ours, url, prune=True)
                began = time.perf_counter()
                while client.get("/v1/recall", params={"query": "remark"}).json()["snapshot"] < int(name[:8]):
                    time.sleep(0.02)
                seconds.append(time.perf_counter() - began)
                time.sleep(float(np.random.default_rng(turn).uniform(0, 1)))  # at any moment between two looks
    finally:
        serving.send_signal(signal.SIGTERM)
        serving.wait(30)
    p50, p95 = np.percentile(seconds, [50, 95]).round(2).tolist()
    return {"pushes": pushes, "p50": p50, "p95": p95, "max": round(max(seconds), 2)}


def set_line(proxy: S3Proxy, latency: float, bandwidth: float) -> None:
    """Set the latency in seconds and the bandwidth in bytes a second."""
    proxy.latency, proxy.bandwidth = latency, bandwidth


def main() -> None:
    """Measure both, and print them as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--latency", type=float, default=20.0, help="milliseconds of each request")
    parser.add_argument("--bandwidth", type=float, default=50.0, help="MB a second")
    parser.add_argument("--pushes", type=int, default=20)
    options = parser.parse_args()
    os.environ.update(AWS)
    report: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name, run_server() as server, run_proxy(server) as proxy:
        url = f"s3://memories/big?endpoint_override={proxy.address}&scheme=http"
        push_store(options.store, url)
        set_line(proxy, options.latency / 1e3, options.bandwidth * 1e6)
        report["opening"] = measure_opening(options.store, url, Path(name))
        set_line(proxy, 0.05, 0.0)
        report["following"] = measure_following(url.replace("/big?", "/small?"), Path(name), options.pushes)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
