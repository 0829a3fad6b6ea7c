# The quick start of enq with Stint: programs, a server, a worker, trees on one shard and on two.
mkdir worker.d
cat > worker.d/process-user-data <<'END'
#!/bin/sh
jq '.[].uid' - >&2
END
cat > worker.d/save-user-data <<'END'
#!/bin/sh
uid=$(jq '.[].uid' -)
echo "{\"link\": \"https://download/for/$uid\"}"
END
cat > worker.d/send-mail <<'END'
#!/bin/sh
link=$(jq '.[].link' -)
echo "sending mail with link $link" >&2
END
chmod +x worker.d/*
stint serve --listen localhost:3733 2> server.log &
server=$!
export STINT_SERVER=http://localhost:3733
until curl -sf "$STINT_SERVER/readyz" > server.ready; do sleep 0.1; done
stint worker --dir worker.d 2> worker.log &
worker=$!
cat > task.json <<'END'
[{
    "task_id": {
        "shard": "1",
        "id": "mytask"
    },
    "method": "process-user-data",
    "args": [
        {
            "type": "VALUE",
            "value_json": "eyJ1aWQiOjEyMzR9"
        }
    ]
}]
END
stint submit --wait < task.json
cat > tree.json <<'END'
[{
    "task_id": {
        "shard": "1",
        "id": "save",
    },
    "method": "save-user-data",
    "args": [
        {
            "type": "VALUE",
            "value_json": "{\"uid\": 1234}",
        }
    ]
}, {
    "task_id": {
        "shard": "1",
        "id": "email",
    },
    "method": "process-user-data",
    "args": [
        {
            "type": "TASKREF",
            "task_id": {
                "shard": "1",
                "id": "save",
            },
        }
    ]
}]
END
stint submit --wait < tree.json
sed 's/process-user-data/send-mail/' tree.json | stint submit --wait
kill $worker && wait $worker
kill $server && wait $server
unset STINT_SERVER
topology=static:1=localhost:3733,2=localhost:3734
for shard in 1 2; do
  stint migrate --schema shard$shard > migrate$shard.log 2>&1
done
stint serve --listen localhost:3733 --schema shard1 --shard 1 --topology $topology 2> server1.log &
server1=$!
stint serve --listen localhost:3734 --schema shard2 --shard 2 --topology $topology 2> server2.log &
server2=$!
for port in 3733 3734; do
  until curl -sf "http://localhost:$port/readyz" > server.ready; do sleep 0.1; done
done
stint worker --server http://localhost:3733 --dir worker.d 2> worker1.log &
worker1=$!
stint worker --server http://localhost:3734 --dir worker.d 2> worker2.log &
worker2=$!
cat > tree2.json <<'END'
[{
    "task_id": {
        "shard": "1",
        "id": "save",
    },
    "method": "save-user-data",
    "args": [
        {
            "type": "VALUE",
            "value_json": "{\"uid\": 1234}",
        }
    ]
}, {
    "task_id": {
        "shard": "2",
        "id": "save",
    },
    "method": "save-user-data",
    "args": [
        {
            "type": "VALUE",
            "value_json": "{\"uid\": 1234}",
        }
    ]
}, {
    "task_id": {
        "shard": "1",
        "id": "email",
    },
    "method": "process-user-data",
    "args": [
        {
            "type": "TASKREF",
            "task_id": {
                "shard": "1",
                "id": "save",
            },
        },
        {
            "type": "TASKREF",
            "task_id": {
                "shard": "2",
                "id": "save",
            },
        }
    ]
}]
END
stint submit --server http://localhost:3734 --wait < tree2.json 2> progress.log
kill $worker1 $worker2 && wait $worker1 $worker2
kill $server1 $server2 && wait $server1 $server2
