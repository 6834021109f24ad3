// Package issuer is the engine: it issues the numbers of biz types by their strategies and plugins.
//
// An [Issuer] handles each request in this order:
//
//	Before of each plugin → strategy → After of each plugin
//
// If one of them refuses, the Issuer calls the rejection handlers.
//
// An Issuer has a slot for each name of a biz type. In the slot is an instance: the strategy and
// plugins of the present definition. Definitions can be added, replaced and removed while the
// Issuer serves; the slot remains. See [Issuer.Put].
package issuer
