# The path of a stranger, in a Debian that has nothing of Stint: /old.deb and /new.deb are packages.
set -eux
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
eventually() { # repeats a command until it succeeds
	for _ in $(seq 300); do
		if "$@"; then return; fi
		sleep 0.2
	done
	return 1
}

apt-get install -y /old.deb
grep -q '^stint:' /etc/passwd
stint --version
zcat /usr/share/man/man1/stint-serve.1.gz | grep -q STINT-SERVE

# An ordinary user runs the demo, with a private PostgreSQL.
useradd -m ann
runuser -u ann -- env HOME=/home/ann stint demo

# The database of the units.
pg_ctlcluster 15 main start
runuser -u postgres -- psql -qc "CREATE ROLE stint LOGIN PASSWORD 'ostrich'"
runuser -u postgres -- createdb -O stint stint
(umask 077 && echo 'postgres://stint:ostrich@127.0.0.1/stint' >/etc/stint/database-url)
STINT_DATABASE_URL_FILE=/etc/stint/database-url stint migrate
echo 'OPTIONS="--listen 127.0.0.1:7331"' >/etc/default/stint-serve
mkdir /etc/stint/worker.d/first
printf '#!/bin/sh\necho "hello, $(cat)"\n' >/etc/stint/worker.d/first/greet
chmod +x /etc/stint/worker.d/first/greet

# start runs the command of a unit as systemd would: as its user, with its variables and its secret.
# A credential's mode is 0400, and its directory is the user's.
start() {
	at=/lib/systemd/system/$1 secrets=/run/credentials/$1
	install -d -o stint -m 0500 "$secrets"
	install -o stint -m 0400 /etc/stint/database-url "$secrets/database-url"
	OPTIONS=
	. "$(sed -n 's/^EnvironmentFile=-//p' "$at")"
	line=$(sed -n 's/^ExecStart=//p' "$at" | sed "s/%i/$2/; s/\$OPTIONS/$OPTIONS/")
	setpriv --reuid stint --regid stint --clear-groups --no-new-privs --bounding-set=-all \
		env -i "$(sed -n 's/^Environment=//p' "$at" | sed "s|%d|$secrets|")" $line &
}
start stint-serve.service ''
serve=$!
start stint-worker@.service first
worker=$!
export STINT_SERVER=http://127.0.0.1:7331
eventually stint stats
for told in cmdline environ; do
	if tr '\0' ' ' <"/proc/$serve/$told" | grep ostrich; then exit 1; fi
done
id=$(echo '{"action": "greet", "body": "world"}' | stint insert)
stint wait "$id" --timeout 2m

# The upgrade keeps what the administrator has written, and what runs goes on.
apt-get install -y /new.deb
grep -q 7331 /etc/default/stint-serve
STINT_SERVER= STINT_DATABASE_URL_FILE=/etc/stint/database-url stint migrate
stint stats
kill -TERM "$worker" "$serve"
wait "$worker"
wait "$serve"
start stint-serve.service ''
serve=$!
eventually stint show "$id"
kill -TERM "$serve"
wait "$serve"

apt-get purge -y stint
left=$(find /etc /usr /lib/systemd /var/lib/dpkg /run/systemd -name '*stint*' 2>/dev/null || true)
[ -z "$left" ]
[ ! -e /usr/bin/stint ]
