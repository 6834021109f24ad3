package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
)

// routes answers
//
//	POST /invoices          {"order":"o-17","cents":1250}   201, or 200 if the order has an invoice
//	GET  /invoices/{order}                                  200 or 404
//
// Both bodies are an invoice. After any error, or no answer, the same POST is safe.
func routes(s *service) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoices", func(w http.ResponseWriter, r *http.Request) {
		var inv invoice
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&inv); err != nil || inv.Order == "" {
			http.Error(w, `the body must be like {"order":"o-17","cents":1250}`, http.StatusBadRequest)
			return
		}
		got, written, err := s.create(r.Context(), inv)
		status := http.StatusOK
		if written {
			status = http.StatusCreated
		}
		reply(w, status, got, err)
	})
	mux.HandleFunc("GET /invoices/{order}", func(w http.ResponseWriter, r *http.Request) {
		got, err := s.find(r.Context(), r.PathValue("order"))
		reply(w, http.StatusOK, got, err)
	})
	return mux
}

func reply(w http.ResponseWriter, status int, inv invoice, err error) {
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(inv) // fails only if the caller is gone
	case errors.Is(err, errNone):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, errInvalid):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	default:
		slog.Error("the invoice may not have been written", "order", inv.Order, "error", err)
		http.Error(w, "not now; send the same request again", http.StatusServiceUnavailable)
	}
}
