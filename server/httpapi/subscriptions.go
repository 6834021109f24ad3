package httpapi

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
)

// Routes of subscriptions.
const (
	subscriptionsRoute = "/subscriptions"
	subscriptionRoute  = "/subscriptions/:name"
	deliveriesRoute    = "/subscriptions/:name/deliveries"
	replayRoute        = "/subscriptions/:name/replay"
)

// ofSubscriptions reports whether a route is one of those. All of them are for administrators: a URL may
// have a secret in it.
func ofSubscriptions(route string) bool { return strings.HasPrefix(route, subscriptionsRoute) }

// subscriptionRoutes adds the routes of subscriptions.
func (a *API) subscriptionRoutes(to administration) {
	add := func(method, route string, f func(*gin.Context, admin.Subscriptions) error) {
		a.engine.Handle(method, route, a.lent(to.handler(func(c *gin.Context, r *gate.Running) error { return f(c, r.Subscriptions) })))
	}
	add(http.MethodGet, subscriptionsRoute, listSubscriptions)
	add(http.MethodGet, subscriptionRoute, getSubscription)
	add(http.MethodPut, subscriptionRoute, putSubscription)
	add(http.MethodDelete, subscriptionRoute, deleteSubscription)
	add(http.MethodGet, deliveriesRoute, listDeliveries)
	add(http.MethodPost, replayRoute, replaySubscription)
}

// listSubscriptions answers GET /subscriptions.
func listSubscriptions(c *gin.Context, all admin.Subscriptions) error {
	after, limit, err := readPage(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	list, more, err := all.List(c.Request.Context(), after, limit)
	if err != nil {
		return err
	}
	page := struct {
		Subscriptions []admin.Subscription `json:"subscriptions"`
		Next          string               `json:"next,omitempty"`
	}{Subscriptions: append([]admin.Subscription{}, list...)}
	if more {
		page.Next = list[len(list)-1].Name
	}
	writeJSON(c, http.StatusOK, jsonType, page)
	return nil
}

// getSubscription answers GET /subscriptions/{name}.
func getSubscription(c *gin.Context, all admin.Subscriptions) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	s, err := all.Get(c.Request.Context(), c.Param("name"))
	if err != nil {
		return err
	}
	setETag(c.Writer.Header(), s.Version)
	writeJSON(c, http.StatusOK, jsonType, s)
	return nil
}

// putSubscription answers PUT /subscriptions/{name}.
func putSubscription(c *gin.Context, all admin.Subscriptions) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	check, err := readCondition(c.Request)
	if err != nil {
		return err
	}
	want := admin.SubscriptionRequest{Enabled: true}
	if err := readSubscription(body(c), &want); err != nil {
		return err
	}
	s, err := all.Put(c.Request.Context(), c.Param("name"), want, check)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if s.Version == 1 {
		status = http.StatusCreated
	}
	setETag(c.Writer.Header(), s.Version)
	setRevision(c, s.Version)
	writeJSON(c, status, jsonType, s)
	return nil
}

// readSubscription reads the body of a subscription.
func readSubscription(body []byte, want *admin.SubscriptionRequest) error {
	o, err := readObject(body, "url", "bizTypes", "types", "from", "enabled", "secret")
	if err != nil {
		return err
	}
	for key, to := range map[string]*string{"url": &want.URL, "from": &want.From, "secret": &want.Secret} {
		if err := o.take(key, "text", to); err != nil {
			return err
		}
	}
	for key, to := range map[string]*[]string{"bizTypes": &want.BizTypes, "types": &want.Types} {
		if err := o.takeTexts(key, to); err != nil {
			return err
		}
	}
	return o.take("enabled", "true or false", &want.Enabled)
}

// deleteSubscription answers DELETE /subscriptions/{name}.
func deleteSubscription(c *gin.Context, all admin.Subscriptions) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	check, err := readCondition(c.Request)
	if err != nil {
		return err
	}
	version, err := all.Delete(c.Request.Context(), c.Param("name"), check)
	if err != nil {
		return err
	}
	setRevision(c, version)
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// listDeliveries answers GET /subscriptions/{name}/deliveries.
func listDeliveries(c *gin.Context, all admin.Subscriptions) error {
	values, err := readQuery(c.Request.URL.RawQuery, "state", "after", "limit")
	if err != nil {
		return err
	}
	after, limit, err := pageIn(values)
	if err != nil {
		return err
	}
	list, more, err := all.Deliveries(c.Request.Context(), c.Param("name"), values["state"], after, limit)
	if err != nil {
		return err
	}
	page := struct {
		Deliveries []admin.Delivery `json:"deliveries"`
		Next       string           `json:"next,omitempty"`
	}{Deliveries: append([]admin.Delivery{}, list...)}
	if more {
		page.Next = list[len(list)-1].Key
	}
	writeJSON(c, http.StatusOK, jsonType, page)
	return nil
}

// replaySubscription answers POST /subscriptions/{name}/replay.
func replaySubscription(c *gin.Context, all admin.Subscriptions) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	o, err := readObject(body(c), "dead", "bizType", "from")
	if err != nil {
		return err
	}
	var r admin.Replay
	if err := o.take("dead", "true or false", &r.Dead); err != nil {
		return err
	}
	if err := o.take("bizType", "text", &r.BizType); err != nil {
		return err
	}
	if err := o.take("from", "a whole number", &r.From); err != nil {
		return err
	}
	if events, none := r.BizType != "" && r.From != 0, r.BizType == "" && r.From == 0; r.Dead && !none || !r.Dead && !events {
		return seqd.Errorf(seqd.CodeInvalidRequest, `the body is neither {"dead": true} nor such as {"bizType": "invoice", "from": 17}`)
	}
	s, err := all.Replay(c.Request.Context(), c.Param("name"), r)
	if err != nil {
		return err
	}
	setETag(c.Writer.Header(), s.Version)
	setRevision(c, s.Version)
	writeJSON(c, http.StatusAccepted, jsonType, s)
	return nil
}
