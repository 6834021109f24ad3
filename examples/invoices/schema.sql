-- One transaction writes both rows. The number is unique here too: whatever happens elsewhere, no
-- number can be on two invoices.
CREATE TABLE IF NOT EXISTS invoice (
	number     text PRIMARY KEY,
	order_id   text NOT NULL CONSTRAINT one_invoice_per_order UNIQUE,
	cents      bigint NOT NULL CONSTRAINT cents_above_zero CHECK (cents > 0),
	written_at timestamptz NOT NULL DEFAULT now()
);

-- Reservations whose numbers are on invoices, to be confirmed.
CREATE TABLE IF NOT EXISTS outbox (
	reservation text PRIMARY KEY,
	number      text NOT NULL REFERENCES invoice,
	written_at  timestamptz NOT NULL DEFAULT now()
);
