-- name: keep_texts
--
-- Notes what read_texts changes in the caller's transaction, for restore_texts to bring back.
VALUES (set_config('stint_kept.client_encoding', current_setting('client_encoding'), true)),
       (set_config('stint_kept.standard_conforming_strings',
                   current_setting('standard_conforming_strings'), true))
