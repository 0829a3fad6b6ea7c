CREATE TABLE kept (word text);
INSERT INTO kept (word) VALUES ('still here');
