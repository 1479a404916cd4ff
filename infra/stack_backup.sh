# Backup and restore of infra/stack.sh, which sources this file.
databases=(prefect mlflow)
volumes=(objects images)
writers=(worker mlflow prefect registry store)

in_postgres() { "${compose[@]}" exec -T postgres "$@" --host /tmp --username paddleship; }

# Run tar on a volume of the stack, as the user of its services.
in_volume() {
    local volume=$1
    shift
    docker run --rm --interactive --network none --read-only --cap-drop ALL --security-opt no-new-privileges --user 10001:10001 \
        --volume "${name}_$volume:/data" --workdir /data --entrypoint tar "$STACK_IMAGE" "$@"
}

runs() { [ -n "$("${compose[@]}" ps -q postgres)" ] && [ -z "$(unhealthy)" ]; }

has_data() { docker volume inspect "${name}_$1" >/dev/null 2>&1; }

backup() {
    local folder=$1 one
    [ -n "$folder" ] || { say "error: backup needs a folder: make stack ACTION=backup BACKUP=FOLDER"; return 2; }
    [ ! -e "$folder" ] || { say "error: $folder exists: give a backup a new folder"; return 2; }
    STACK_IMAGE=${STACK_IMAGE:-$("$here/stack_image.sh")}
    export STACK_IMAGE
    runs || { say "error: the stack $name is not running, or not healthy: start it with \`make stack\`, then make the backup"; return 4; }
    (umask 077 && mkdir -p "$(dirname "$folder")" && mkdir "$folder.partial") ||
        { say "error: $folder.partial cannot be made, or is left over from an interrupted backup: remove it"; return 2; }
    trap 'rm -rf "$partial"; start' EXIT
    partial=$folder.partial
    say "stopping the services that write"
    "${compose[@]}" stop "${writers[@]}"
    (
        umask 077
        for one in "${databases[@]}"; do in_postgres pg_dump --format custom "$one" >"$partial/$one.dump" </dev/null || exit; done
        for one in "${volumes[@]}"; do in_volume "$one" --create --file - . >"$partial/$one.tar" </dev/null || exit; done
        cd "$partial" && sha256sum -- *.dump *.tar >SHA256SUMS && sync -- *
    ) || { say "error: the backup failed: see the lines above; the services are started again"; return 4; }
    mv "$partial" "$folder"
    trap - EXIT
    start || return
    say "backup   $folder: $(du -sh "$folder" | cut -f1)"
}

# Whether a folder holds a whole backup, as it was written.
intact() {
    local one
    for one in "${databases[@]/%/.dump}" "${volumes[@]/%/.tar}"; do
        grep -q "  $one\$" "$1/SHA256SUMS" 2>/dev/null || { say "error: $1 is not a backup of the stack: SHA256SUMS does not name $one"; return 1; }
    done
    (cd "$1" && sha256sum --check --strict --quiet SHA256SUMS >&2) || { say "error: $1 is not as it was written: see the line above"; return 1; }
}

restore() {
    local folder=$1 one
    [ -n "$folder" ] || { say "error: restore needs a folder: make stack ACTION=restore BACKUP=FOLDER"; return 2; }
    intact "$folder" || return 2
    for one in database "${volumes[@]}"; do
        ! has_data "$one" || { say "error: the stack $name has data, which restore would mix: remove it first (make stack ACTION=remove)"; return 2; }
    done
    prepare
    start postgres || return
    for one in "${databases[@]}"; do
        in_postgres pg_restore --exit-on-error --single-transaction --no-owner --dbname "$one" <"$folder/$one.dump" ||
            { say "error: the database $one cannot be restored: see the lines above, remove the stack, and restore again"; return 4; }
    done
    for one in "${volumes[@]}"; do
        in_volume "$one" --extract --file - <"$folder/$one.tar" ||
            { say "error: the $one cannot be restored: see the lines above, remove the stack, and restore again"; return 4; }
    done
    up
}
