# The training image: Python and the project with PyTorch beside Paddle. `infra/train_image.sh` lays out rootfs/ on the host,
# so the build needs no network and works with any builder. torch.compile needs a C++ compiler: give a base image that has one.
ARG BASE_IMAGE=python:3.11
FROM ${BASE_IMAGE}

COPY rootfs/site/ /opt/site/
COPY rootfs/lib/ /opt/lib/
COPY --chown=10001:10001 rootfs/app/ /opt/paddleship/

ENV PYTHONPATH=/opt/paddleship:/opt/site \
    LD_LIBRARY_PATH=/opt/lib \
    PYTHONUNBUFFERED=1 \
    DO_NOT_TRACK=true \
    MLFLOW_DISABLE_TELEMETRY=true \
    ORT_DISABLE_TELEMETRY=1 \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    HOME=/tmp

USER 10001:10001
WORKDIR /opt/paddleship
CMD ["python", "-m", "benchmarks.graph_modes"]
