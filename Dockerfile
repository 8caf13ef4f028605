# modelwheel with everything that authors of models need: TensorFlow, a C++ compiler, git and the sandbox.
#
#     docker build --tag modelwheel .
#     docker run --rm --volume "$PWD:/work" --security-opt seccomp=unconfined \
#         --security-opt systempaths=unconfined modelwheel build model_specs/digits.yaml
#
# Docker's own seccomp profile forbids the user namespaces of the sandbox; modelwheel has a stricter one. Dependabot keeps the digest.
FROM python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285 AS base
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap g++ git make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 author
WORKDIR /work

FROM base AS modelwheel
ARG VERSION=0.1.0
RUN python -m pip install --no-cache-dir "modelwheel[jax,keras,onnx]==${VERSION}"
USER author
ENTRYPOINT ["modelwheel"]
CMD ["--help"]
