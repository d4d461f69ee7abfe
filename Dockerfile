# Two images of one wheel: `query` answers and holds the core only; `worker` ingests and brings torch and Celery.
#   docker build --target query -t helix-query .
#   docker build --target worker -t helix-worker .
ARG PYTHON=3.11
FROM python:${PYTHON}-slim AS wheel
# The wheel holds a small library in C.
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
# The store's files are 0600: every image has the same user. A new volume takes over owner and mode of its folder.
RUN groupadd --gid 10001 helix \
    && useradd --uid 10001 --gid helix --no-create-home --home-dir /tmp --shell /usr/sbin/nologin helix \
    && install --directory --owner=helix --group=helix --mode=0700 /store /cache
COPY constraints.txt /constraints.txt
WORKDIR /tmp


FROM base AS worker
# The usual torch for Linux brings gigabytes of CUDA. An index that holds the CPU build of the same version satisfies
# the same pin: docker build --build-arg TORCH_INDEX=<url> …
ARG TORCH_INDEX=
RUN pip install --no-deps ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} --constraint /constraints.txt torch
RUN --mount=from=wheel,source=/wheel,target=/wheel \
    pip install --constraint /constraints.txt "$(echo /wheel/*.whl)[workers]"
USER helix
CMD ["helix", "worker"]


# The last stage is what a bare `docker build .` makes.
FROM base AS query
RUN --mount=from=wheel,source=/wheel,target=/wheel \
    pip install --constraint /constraints.txt /wheel/*.whl
USER helix
EXPOSE 8765
HEALTHCHECK --interval=15s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8765/healthz', timeout=3)"]
# Loopback is the default of `helix serve`; whoever publishes the port says so (see docker-compose.yml).
CMD ["helix", "serve", "--wait"]
