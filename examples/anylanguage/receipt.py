"""Is a program of stint worker that receives an order: its body is the item."""

import os
import sys

import psycopg2

ALREADY_RETURNED = "STI06"


def receive(connection, task, token, item):
    """Adds the receipt and ends its task, in one commit."""
    with connection, connection.cursor() as cursor:  # commits, or rolls back after an exception
        cursor.execute("INSERT INTO receipts (task, item) VALUES (%s, %s)", (task, item))
        cursor.execute("SELECT stint.finish_task(%s, %s, result => %s)", (task, token, "sent"))


if __name__ == "__main__":
    try:
        receive(psycopg2.connect(""), os.environ["STINT_TASK_ID"], os.environ["STINT_TASK_TOKEN"],
                sys.stdin.read())
    except psycopg2.Error as error:
        if error.pgcode != ALREADY_RETURNED:
            raise
