-- name: restore_texts
--
-- Gives the caller's transaction the settings back that keep_texts noted.
VALUES (set_config('client_encoding', current_setting('stint_kept.client_encoding'), true)),
       (set_config('standard_conforming_strings',
                   current_setting('stint_kept.standard_conforming_strings'), true))
