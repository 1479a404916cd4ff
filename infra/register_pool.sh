#!/usr/bin/env bash
# Create or update a work pool of containers and its deployment of run-stages: `infra/register_pool.sh docker|kubernetes POOL IMAGE [VARIABLES]`,
# such as `infra/register_pool.sh kubernetes k8s registry.example/train:gpu '{"gpus": 1, "memory_limit": "32Gi"}'`. The file
# infra/docker/job_template.json or infra/kubernetes/job_template.json describes the variables.
# Containers clone the branch that is checked out here from its remote `origin`; GIT_URL and BRANCH name others.
# Exit codes: 0 registered, 2 bad input, otherwise Prefect's.
set -euo pipefail

refuse() { printf 'error: %s\n' "$*" >&2; exit 2; }
usage="usage: infra/register_pool.sh docker|kubernetes POOL IMAGE [VARIABLES]"
[ $# -ge 3 ] || refuse "$usage"
type=$1
pool=$2
image=$3
variables=${4:-{\}}
cd "$(dirname "$0")/.."
prefect=${PREFECT:-.venv/bin/prefect}
template=infra/$type/job_template.json

case "$type" in
docker) secret="a file that the variable volumes mounts" ;;
kubernetes) secret="the Secrets paddleship-git and paddleship-env" ;;
*) refuse "$type is no type of pool: $usage" ;;
esac
case "$pool" in local | docker) refuse "the pool $pool is for the deployments of prefect.yaml: give another name" ;; esac
git=${GIT_URL:-$(git remote get-url origin 2>/dev/null)} || refuse "there is no git remote 'origin', from which containers could clone: set GIT_URL"
case "$git" in *://*:*@*) refuse "the URL of the git remote has a password, which Prefect's server would store: put it into $secret" ;; esac
if [[ $git =~ ^https?://[^/:@]{16,}@ ]]; then refuse "the URL of the git remote has a token, which Prefect's server would store: put it into $secret"; fi
branch=${BRANCH:-$(git symbolic-ref --quiet --short HEAD)} || refuse "no branch is checked out: set BRANCH to the one that containers clone"
case "$git$branch" in *[\"\\]*) refuse "$git and $branch must have no quotes and no backslashes" ;; esac
case "$variables" in *'"env"'*) refuse "env cannot be set here: put secrets into $secret, and the rest into $template" ;; esac

[ -n "${PREFECT_API_URL:-}" ] || "$prefect" config view --hide-sources | grep -q "^PREFECT_API_URL=" ||
    refuse "no Prefect server is chosen: set PREFECT_API_URL, or start one with \`make ui\`"

if found=$("$prefect" work-pool inspect "$pool" --output json 2>/dev/null); then
    case "$found" in *"\"type\": \"$type\""*) ;; *) refuse "the work pool $pool exists, and is not of the type $type: give another name" ;; esac
    "$prefect" work-pool update "$pool" --base-job-template "$template" # keeps its concurrency limit and its pause
else
    "$prefect" work-pool create "$pool" --type "$type" --base-job-template "$template"
fi
env=$(printf '{"env": {"PADDLESHIP_GIT": "%s", "PADDLESHIP_BRANCH": "%s"}}' "$git" "$branch")
PADDLESHIP_POOL=$pool PADDLESHIP_POOL_TYPE=$type "$prefect" --no-prompt deploy --prefect-file infra/stages.yaml --name "$pool" \
    --job-variable "$variables" --job-variable "image=$image" --job-variable "$env"
