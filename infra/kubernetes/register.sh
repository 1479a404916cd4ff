#!/usr/bin/env bash
# Create or update a Kubernetes work pool and its deployment of run-stages: `infra/kubernetes/register.sh POOL IMAGE [VARIABLES]`, such as
# `infra/kubernetes/register.sh k8s-gpu registry.example/train:gpu '{"gpus": 1, "memory_limit": "32Gi"}'`; job_template.json describes the variables.
# Pods clone the branch that is checked out here from its remote `origin`; GIT_URL and BRANCH name others.
# Exit codes: 0 registered, 2 bad input, otherwise Prefect's.
set -euo pipefail

usage="usage: infra/kubernetes/register.sh POOL IMAGE [VARIABLES]"
pool=${1:?$usage}
image=${2:?$usage}
variables=${3:-{\}}
cd "$(dirname "$0")/../.."
prefect=${PREFECT:-.venv/bin/prefect}

refuse() { printf 'error: %s\n' "$*" >&2; exit 2; }
git=${GIT_URL:-$(git remote get-url origin 2>/dev/null)} || refuse "there is no git remote 'origin', from which pods could clone: set GIT_URL"
case "$git" in *://*:*@*) refuse "the URL of the git remote has a password, which Prefect's server would store: put it into the Secret paddleship-git" ;; esac
branch=${BRANCH:-$(git symbolic-ref --quiet --short HEAD)} || refuse "no branch is checked out: set BRANCH to the one that pods clone"
case "$git$branch" in *[\"\\]*) refuse "$git and $branch must have no quotes and no backslashes" ;; esac
case "$variables" in *'"env"'*) refuse "env cannot be set here: put secrets into the Secret paddleship-env, and the rest into job_template.json" ;; esac

[ -n "${PREFECT_API_URL:-}" ] || "$prefect" config view --hide-sources | grep -q "^PREFECT_API_URL=" ||
    refuse "no Prefect server is chosen: set PREFECT_API_URL, or start one with \`make ui\`"

template=infra/kubernetes/job_template.json
if found=$("$prefect" work-pool inspect "$pool" --output json 2>/dev/null); then
    case "$found" in *'"type": "kubernetes"'*) ;; *) refuse "the work pool $pool exists, and is not of the type kubernetes: give another name" ;; esac
    "$prefect" work-pool update "$pool" --base-job-template "$template" # keeps its concurrency limit and its pause
else
    "$prefect" work-pool create "$pool" --type kubernetes --base-job-template "$template"
fi
env=$(printf '{"env": {"PADDLESHIP_GIT": "%s", "PADDLESHIP_BRANCH": "%s"}}' "$git" "$branch")
PADDLESHIP_POOL=$pool "$prefect" --no-prompt deploy --prefect-file infra/kubernetes/prefect.yaml --name "$pool" \
    --job-variable "$variables" --job-variable "image=$image" --job-variable "$env"
