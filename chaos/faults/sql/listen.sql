LISTEN {schema}
