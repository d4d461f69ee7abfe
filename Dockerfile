# Two images of one wheel: `query` answers and has the core only; `worker` ingests and has torch and Celery.
#   docker build --target query -t helix-query .
#   docker build --target worker -t helix-worker .
ARG PYTHON=3.11
FROM python:${PYTHON}-slim AS wheel
# The wheel has a small C library.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY helix helix
COPY pipelines pipelines
COPY query query
COPY workers workers
RUN pip wheel --no-cache-dir --disable-pip-version-check --no-deps --wheel-dir /wheel .


FROM python:${PYTHON}-slim AS base
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    HF_HUB_OFFLINE=1 \
    HELIX_STORE=/store \
    HELIX_CACHE=/cache
# The store's files are 0600, so every image has the same user. A new volume gets owner and mode of its folder.
RUN groupadd --gid 10001 helix \
    && useradd --uid 10001 --gid helix --no-create-home --home-dir /tmp --shell /usr/sbin/nologin helix \
    && install --directory --owner=helix --group=helix --mode=0700 /store /cache
COPY constraints.txt /constraints.txt
WORKDIR /tmp


FROM base AS worker
# The default torch for Linux includes gigabytes of CUDA. An index with the CPU build of the same version satisfies the
# same pin: docker build --build-arg TORCH_INDEX=<url> …
ARG TORCH_INDEX=
RUN pip install --no-deps ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} --constraint /constraints.txt torch
RUN --mount=from=wheel,source=/wheel,target=/wheel \
    pip install --constraint /constraints.txt "$(echo /wheel/*.whl)[workers]"
USER helix
CMD ["helix", "worker"]


# A plain `docker build .` makes this last stage.
FROM base AS query
RUN --mount=from=wheel,source=/wheel,target=/wheel \
    pip install --constraint /constraints.txt "$(echo /wheel/*.whl)[s3]"
USER helix
EXPOSE 8765
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8765/healthz', timeout=3)"]
# `helix serve` listens on loopback by default; docker-compose.yml shows how to publish the port.
CMD ["helix", "serve", "--wait"]
