-- name: listen
LISTEN stint
