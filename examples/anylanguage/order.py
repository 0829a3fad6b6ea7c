"""Places an order: python3 order.py postgresql://web@localhost/app 8 coffee"""

import sys

import psycopg2

TASK_EXISTS = "STI01"


def place_order(connection, number, item):
    """Adds the order and the task that sends its receipt, in one commit."""
    with connection, connection.cursor() as cursor:  # commits, or rolls back after an exception
        cursor.execute("INSERT INTO orders (number, item) VALUES (%s, %s)", (number, item))
        cursor.execute(
            "SELECT stint.add_task('send-receipt', %s, id => %s, max_tries => %s)",
            (item, f"receipt/{number}", 5),
        )
        return cursor.fetchone()[0]


if __name__ == "__main__":
    database, number, item = sys.argv[1:]
    try:
        print(place_order(psycopg2.connect(database), int(number), item))
    except psycopg2.Error as error:
        if error.pgcode != TASK_EXISTS:
            raise
        sys.exit(f"order {number} has its task already: {error.diag.message_primary}")
