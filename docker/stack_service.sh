#!/bin/sh
# Start a service of infra/compose.yaml: `stack-service postgres|prefect|mlflow|store|registry|worker`.
# Passwords come from files, so that neither `docker inspect` nor the list of processes shows them.
set -eu

database() { printf 'postgresql%s://paddleship:%s@postgres:5432/%s' "$1" "$(cat /run/secrets/database_password)" "$2"; }

# The value of a key in the credentials file of the object store.
credential() { sed -n "s/^$1 *= *//p" "$AWS_SHARED_CREDENTIALS_FILE"; }

case "$1" in
postgres)
    if [ ! -d /data/cluster ]; then
        rm -rf /data/new # of a first start that was interrupted
        initdb --pgdata /data/new --username paddleship --pwfile /run/secrets/database_password --encoding UTF8 \
            --auth-local peer --auth-host scram-sha-256
        echo 'host all all all scram-sha-256' >>/data/new/pg_hba.conf
        printf 'CREATE DATABASE prefect;\nCREATE DATABASE mlflow;\n' | postgres --single -D /data/new postgres
        mv /data/new /data/cluster
    fi
    exec postgres -D /data/cluster -c listen_addresses='*' -c unix_socket_directories=/tmp
    ;;
prefect)
    PREFECT_SERVER_DATABASE_CONNECTION_URL=$(database +asyncpg prefect)
    export PREFECT_SERVER_DATABASE_CONNECTION_URL
    exec prefect server start --host 0.0.0.0 --port 4200
    ;;
mlflow)
    MLFLOW_BACKEND_STORE_URI=$(database '' mlflow)
    export MLFLOW_BACKEND_STORE_URI
    exec mlflow server --host 0.0.0.0 --port 5000 --workers 2 --allowed-hosts "$ALLOWED_HOSTS" --artifacts-destination s3://mlflow
    ;;
store)
    mkdir -p /data/buckets/dvc /data/buckets/mlflow
    NANIO_ACCESS_KEY=$(credential aws_access_key_id)
    NANIO_SECRET_KEY=$(credential aws_secret_access_key)
    export NANIO_ACCESS_KEY NANIO_SECRET_KEY
    exec nanio serve --data-dir /data/buckets --host 0.0.0.0 --port 9000 --no-access-log
    ;;
registry)
    cat >/tmp/registry.yml <<CONFIG
version: 0.1
storage: {filesystem: {rootdirectory: /data/images}, delete: {enabled: true}}
http: {addr: ":5000"}
CONFIG
    exec docker-registry serve /tmp/registry.yml
    ;;
worker)
    git config --global --replace-all safe.directory '*' # a mounted repository belongs to another user
    install -m 600 /run/secrets/git_credentials /tmp/git_credentials # a copy, because git writes to it
    git config --global credential.helper 'store --file /tmp/git_credentials'
    if [ ! -d clone ]; then
        rm -rf new
        git clone --quiet "$REPOSITORY" new
        mv new clone
    fi
    cd clone
    git fetch --quiet origin HEAD
    git checkout --quiet --detach FETCH_HEAD
    dvc remote add --quiet --local --force --default stack s3://dvc
    dvc remote modify --quiet --local stack endpointurl http://store:9000
    export PYTHONPATH=/data/clone
    python -m paddleship.cli.main deploy
    exec python -m paddleship.cli.main worker --pool "$POOL"
    ;;
*)
    echo "usage: stack-service postgres|prefect|mlflow|store|registry|worker" >&2
    exit 2
    ;;
esac
