SELECT word FROM kept;
