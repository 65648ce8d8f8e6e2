#!/bin/sh
# Makes sure that what pip cannot install is there: `system-packages.sh rabbitmq-server redis-server`.
#
# Each argument names a need. What is present is left alone. What is missing is installed on a
# Debian-like system when run as root; elsewhere the script says what to install, and fails only
# in CI (CI=true), for on a laptop the tests that need it are skipped with their reason.
# No server is started: the tests start their own, on free ports, and stop them.
set -eu

PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
python="${PYTHON:-python3}"
policy=/usr/sbin/policy-rc.d
missing=""

present() {
    case "$1" in
        rabbitmq-server) [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || command -v rabbitmq-server ;;
        postgresql) ls /usr/lib/postgresql/*/bin/postgres || command -v postgres ;;
        mariadb-server) command -v mariadbd ;;
        libzookeeper-java) [ -e /usr/share/java/zookeeper.jar ] ;;
        openjdk-17-jre-headless | default-jre-headless) java_version ;;
        python3-venv) "$python" -c 'import ensurepip, venv' ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# Whether JAVA_HOME or PATH has Java 17 or newer, for Spark and ZooKeeper.
java_version() {
    for java in "${JAVA_HOME:-/nonexistent}/bin/java" java; do
        version="$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)"
        [ "${version:-0}" -ge 17 ] && return 0
    done
    return 1
}

can_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

# Debian starts a server as part of installing it, unless this file says no.
forbid_starting_servers() {
    [ -e "$policy" ] && return
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
}

for need in "$@"; do
    present "$need" || missing="$missing $need"
done
[ -n "$missing" ] || exit 0

if can_install; then
    echo "Installing system packages:$missing"
    forbid_starting_servers
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update
    # Newer systems have left 17 behind; their default is a later one.
    apt-cache show openjdk-17-jre-headless >/dev/null 2>&1 ||
        missing="$(echo "$missing" | sed 's/openjdk-17-jre-headless/default-jre-headless/')"
    # shellcheck disable=SC2086 # one word a package
    apt-get -q install -y --no-install-recommends $missing
    for need in $missing; do
        present "$need" || { echo "$need is still missing after its installation" >&2; exit 1; }
    done
    exit 0
fi

cat >&2 <<MESSAGE
Missing:$missing
  Debian, Ubuntu:  sudo apt-get install --no-install-recommends$missing
  elsewhere:       the packages of the same purpose (RabbitMQ >= 3.10, Redis >= 6.2, PostgreSQL >= 13,
                   MariaDB >= 10.6, ZooKeeper >= 3.8, Java >= 17, rclone >= 1.60)
MESSAGE
case "$missing" in *python3-venv*) exit 1 ;; esac
if [ "${CI:-}" = true ]; then
    echo "CI=true: they must be there." >&2
    exit 1
fi
echo "Going on without: tests that need them are skipped." >&2
