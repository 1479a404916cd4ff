# The image of every service of infra/compose.yaml: PostgreSQL, an image registry, git, and the Python packages of the project. It holds no code
# of the project, which the worker clones. `infra/stack_image.sh` makes venv/ on the host.
ARG BASE_IMAGE=debian:12-slim
FROM ${BASE_IMAGE}

RUN mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf \
    && apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        ca-certificates curl docker-registry git libgomp1 postgresql-15 python3.11 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --home-dir /data --no-create-home paddleship \
    && install -d -o paddleship -g paddleship -m 700 /data

COPY venv/ /opt/venv/
COPY stack_service.sh /usr/local/bin/stack-service

ENV PATH=/opt/venv/bin:/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    DO_NOT_TRACK=true \
    MLFLOW_DISABLE_TELEMETRY=true \
    ORT_DISABLE_TELEMETRY=1 \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    HOME=/data

USER 10001:10001
WORKDIR /data
ENTRYPOINT ["stack-service"]
