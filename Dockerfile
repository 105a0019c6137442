# Stoker's images:
#
#   docker build -t stoker .                                 serve: no Python, no compiler
#   docker build -t stoker:minimal --target serve-minimal .  the same, from scratch: no shell either
#   docker build -t stoker:cuda --target serve-cuda .        serves on GPUs as well: CUDA's libraries
#   docker build -t stoker:compile --target compile .        fills caches: Python, torch, g++
#
# BuildKit is needed (DOCKER_BUILDKIT=1 before Docker 23). Hosts with a private certificate
# authority add --secret id=ca,src=CERTIFICATES.pem, for pip.
ARG BASE=debian:bookworm-slim

# Compilers, libraries' headers and the locked Python environment; changes with these files only.
FROM ${BASE} AS tools
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ENV STOKER_HOME=/opt/stoker
COPY deploy/install.sh deploy/steps.sh deploy/requirements.lock deploy/llhttp.lock /stoker/deploy/
RUN --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi; \
    PIP_NO_CACHE_DIR=1 /stoker/deploy/install.sh; \
    source /stoker/deploy/steps.sh; \
    ln -s "$(venv_folder)" /opt/stoker/venv; \
    rm -rf /opt/stoker/logs /var/lib/apt/lists/* /var/cache/apt/* /var/log/*

FROM tools AS torch
COPY deploy/packages/torch_libraries.sh /stoker/deploy/packages/
RUN /stoker/deploy/packages/torch_libraries.sh /opt/stoker/venv/bin/python /out/usr/lib/stoker

FROM tools AS build
WORKDIR /stoker
COPY . ./
RUN --mount=type=cache,target=/opt/stoker/ccache \
    source deploy/steps.sh; \
    configure_and_build release --target stokerd stokerctl stoker_cuda; \
    cmake --install build/release --strip --component daemon --prefix /out/daemon/usr; \
    cmake --install build/release --strip --component cuda --prefix /out/cuda/usr; \
    cmake --install build/release --component compiler --prefix /out/compiler/usr; \
    rm -rf build
# Names of the Debian packages whose libraries the daemon and torch need.
RUN --mount=type=bind,from=torch,source=/out,target=/out/torch \
    mkdir /tmp/source /tmp/source/debian; \
    cd /tmp/source; \
    touch debian/control; \
    dpkg-shlibdeps -O --ignore-missing-info -l/out/torch/usr/lib/stoker \
      /out/daemon/usr/bin/* /out/torch/usr/lib/stoker/* | \
      sed 's/^shlibs:Depends=//; s/([^)]*)//g; s/,//g' | xargs -n 1 > /out/packages

# Fills caches (stokerd --warm-only), exports models (python -m compiler.export); for GPUs too, where
# NVIDIA's container toolkit brings one in.
FROM tools AS compile
COPY --from=torch /out /
RUN --mount=type=bind,source=deploy/packages/cuda_libraries.sh,target=/run/cuda_libraries.sh \
    /run/cuda_libraries.sh --link /opt/stoker/venv/lib/python3*/site-packages/torch /usr/lib/stoker
COPY --from=build /out/daemon /
COPY --from=build /out/cuda /
COPY --from=build /out/compiler /
COPY deploy/export_demo.py deploy/demo_client.py /usr/share/stoker/deploy/
RUN install -d -o 10001 -g 10001 -m 700 /var/cache/stoker; \
    install -d -o 10001 -g 10001 /models
# torch asks for the user's name, and the system knows none.
ENV PATH=/opt/stoker/venv/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/usr/share/stoker PYTHONDONTWRITEBYTECODE=1 \
    USER=stoker HOME=/tmp XDG_CACHE_HOME=/var/cache \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /usr/share/stoker
# A pod that compiles begins with an empty cache: 12 s of a core less until its first program is compiled.
RUN python -m compiler.worker.headers --march x86-64-v3 --march x86-64-v4
USER 10001:10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/stokerd"]
CMD ["--warm-only", "--model-repository=/models"]
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="Stoker, compiler" \
      org.opencontainers.image.description="Compiles PyTorch programs for Stoker, an inference server" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

# What all that serve have in common. Layers in the order in which they change: Debian, packages,
# torch, and on top, in each of them, the daemon.
FROM ${BASE} AS runtime
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
RUN --mount=type=bind,from=build,source=/out/packages,target=/run/packages \
    apt-get update; \
    DEBIAN_FRONTEND=noninteractive xargs apt-get install -y --no-install-recommends < /run/packages; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/* /var/log/* \
      /usr/share/gcc /usr/share/gdb; \
    install -d -o 10001 -g 10001 -m 700 /var/cache/stoker; \
    mkdir /models
COPY --from=torch /out /
# Who scrapes a container is outside of it.
ENV XDG_CACHE_HOME=/var/cache STOKER_METRICS_LISTEN=0.0.0.0:8002
# By number, so that Kubernetes can tell that it isn't root. Any other user does as well.
USER 10001:10001
EXPOSE 8000 8001 8002
# The daemon is process 1: it takes the signal itself, drains, and ends with 0.
STOPSIGNAL SIGTERM
# Healthy is ready, not merely alive. Nothing fails while it warms up within the start period.
HEALTHCHECK --interval=5s --timeout=4s --start-period=60s --retries=3 CMD ["/usr/bin/stokerctl", "health"]
ENTRYPOINT ["/usr/bin/stokerd"]
CMD ["--frozen", "--model-repository=/models"]

# The shared libraries beside torch's, and the folders.
FROM runtime AS closure
USER 0
COPY --from=build /out/daemon /
RUN mkdir -p /closure/models; \
    install -d -m 1777 /closure/tmp; \
    ldd /usr/bin/stokerd /usr/bin/stokerctl | \
      awk '$2 == "=>" && $3 !~ /stoker/ { print $3 } $1 ~ /^\/lib64\// { print $1 }' | \
      sort -u | xargs cp -L --parents -t /closure

FROM scratch AS serve-minimal
COPY --from=closure /closure /
# Its owner doesn't come along with every builder.
COPY --from=closure --chown=10001:10001 /var/cache/stoker /var/cache/stoker
COPY --from=torch /out /
COPY --from=build /out/daemon /
ENV XDG_CACHE_HOME=/var/cache STOKER_METRICS_LISTEN=0.0.0.0:8002
USER 10001:10001
EXPOSE 8000 8001 8002
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=4s --start-period=60s --retries=3 CMD ["/usr/bin/stokerctl", "health"]
ENTRYPOINT ["/usr/bin/stokerd"]
CMD ["--frozen", "--model-repository=/models"]
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="Stoker" \
      org.opencontainers.image.description="Inference server for PyTorch programs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

FROM runtime AS serve-cuda
USER 0
# Straight from where pip put them: 3 GB that no other stage holds again.
RUN --mount=type=bind,from=tools,source=/opt/stoker,target=/mnt \
    --mount=type=bind,source=deploy/packages/cuda_libraries.sh,target=/run/cuda_libraries.sh \
    /run/cuda_libraries.sh /mnt/venv-*/lib/python3*/site-packages/torch /usr/lib/stoker
USER 10001:10001
COPY --from=build /out/daemon /
COPY --from=build /out/cuda /
# By these NVIDIA's container toolkit knows what to bring in: the GPUs, the driver's libraries, NVML.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="Stoker for GPUs" \
      org.opencontainers.image.description="Inference server for PyTorch programs, on CPUs and NVIDIA's GPUs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

FROM runtime AS serve
COPY --from=build /out/daemon /
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="Stoker" \
      org.opencontainers.image.description="Inference server for PyTorch programs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
