package server

import "time"

// WithCertificateLook sets how often the files of the certificate are checked.
func WithCertificateLook(interval time.Duration) Option {
	return func(o *options) { o.certLook = interval }
}
