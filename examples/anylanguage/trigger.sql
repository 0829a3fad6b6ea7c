-- Whoever adds an order, in whatever language, adds its task. The function has the rights of its
-- owner, so only the owner needs the role stint_enqueuer.
CREATE FUNCTION order_placed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM stint.add_task('send-receipt', NEW.item, id => format('receipt/%s', NEW.number));
    RETURN NULL;
END
$$;

CREATE TRIGGER order_placed AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION order_placed();
