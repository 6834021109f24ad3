package server

import "time"

// WithCertificateLook looks at the files of the certificate so often.
func WithCertificateLook(interval time.Duration) Option {
	return func(o *options) { o.certLook = interval }
}
