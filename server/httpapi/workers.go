package httpapi

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/server/admin"
)

// Routes of worker IDs.
const (
	poolsRoute   = "/worker-pools"
	poolRoute    = "/worker-pools/:pool"
	workersRoute = "/workers/:pool"
	leaseRoute   = "/workers/:pool/:lease"
)

const (
	// mostStandby is how many requests may wait for a worker ID at once, and how many for events.
	mostStandby = 4096
	// mostWait is the longest time to stand by, or to wait for events, and mostHolders how many holders are shown.
	mostWait    = time.Minute
	mostHolders = 1000
)

// shownPool is a pool as callers see it.
type shownPool struct {
	Pool         string `json:"pool"`
	BitsMachine  int    `json:"bitsMachine"`
	BitsSequence int    `json:"bitsSequence"`
	Epoch        string `json:"epoch"`
	TTL          string `json:"ttl"`
	Version      int64  `json:"version"`
	UpdatedAt    string `json:"updatedAt"`
	// Held and what follows is only set for one pool.
	Held       *int          `json:"held,omitempty"`
	Free       *int          `json:"free,omitempty"`
	StandingBy *int64        `json:"standingBy,omitempty"`
	Holders    []shownHolder `json:"holders,omitempty"`
}

type shownHolder struct {
	WorkerID int64  `json:"workerId"`
	Instance string `json:"instance"`
	Until    string `json:"until"`
}

func showPool(p admin.WorkerPool) shownPool {
	return shownPool{
		Pool: p.Name, BitsMachine: p.BitsMachine, BitsSequence: p.BitsSequence, Epoch: shownTime(p.Epoch),
		TTL: literal.ShortDuration(p.TTL), Version: p.Revision, UpdatedAt: shownTime(p.Updated),
	}
}

// listPools answers GET /worker-pools.
func listPools(c *gin.Context, workers admin.Workers) error {
	after, limit, err := readPage(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	list, more, err := workers.Pools(c.Request.Context(), after, limit)
	if err != nil {
		return err
	}
	page := struct {
		Pools []shownPool `json:"pools"`
		Next  string      `json:"next,omitempty"`
	}{Pools: make([]shownPool, 0, len(list))}
	for _, p := range list {
		page.Pools = append(page.Pools, showPool(p))
	}
	if more {
		page.Next = list[len(list)-1].Name
	}
	writeJSON(c, http.StatusOK, jsonType, page)
	return nil
}

// getPool answers GET /worker-pools/{pool}.
func getPool(c *gin.Context, workers admin.Workers) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	p, err := workers.Pool(c.Request.Context(), c.Param("pool"))
	if err != nil {
		return err
	}
	holders, standingBy, err := workers.Holders(c.Request.Context(), p.Name)
	if err != nil {
		return err
	}
	shown := showPool(p)
	shown.Held, shown.Free, shown.StandingBy = new(len(holders)), new(1<<p.BitsMachine-len(holders)), &standingBy
	for _, h := range holders[:min(len(holders), mostHolders)] {
		shown.Holders = append(shown.Holders, shownHolder{h.ID, h.Instance, shownTime(h.Until)})
	}
	setETag(c.Writer.Header(), p.Revision)
	writeJSON(c, http.StatusOK, jsonType, shown)
	return nil
}

// setPool returns the handler of PUT /worker-pools/{pool}, for which what the body does not say gets
// its default, or of PATCH, for which that stays.
func setPool(replace bool) func(*gin.Context, admin.Workers) error {
	return func(c *gin.Context, workers admin.Workers) error {
		if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
			return err
		}
		check, err := readCondition(c.Request)
		if err != nil {
			return err
		}
		o, err := readObject(body(c), "bitsMachine", "bitsSequence", "epoch", "ttl")
		if err != nil {
			return err
		}
		var before int64
		p, err := workers.SetPool(c.Request.Context(), c.Param("pool"), func(p *admin.WorkerPool) error {
			if before = p.Revision; before == 0 && !replace {
				return seqd.Errorf(seqd.CodeUnknownPool, "there is no pool %s of worker IDs", p.Name)
			}
			if err := check(before); err != nil {
				return err
			}
			if replace {
				usual := admin.DefaultWorkerPool(p.Name)
				usual.Revision = before
				*p = usual
			}
			return editPool(o, p)
		})
		if err != nil {
			return err
		}
		status := http.StatusOK
		if before == 0 {
			status = http.StatusCreated
		}
		setETag(c.Writer.Header(), p.Revision)
		setRevision(c, p.Revision)
		writeJSON(c, status, jsonType, showPool(p))
		return nil
	}
}

// editPool applies an object to a pool.
func editPool(o object, p *admin.WorkerPool) error {
	if err := o.take("bitsMachine", "a whole number", &p.BitsMachine); err != nil {
		return err
	}
	if err := o.take("bitsSequence", "a whole number", &p.BitsSequence); err != nil {
		return err
	}
	if err := takeTime(o, "epoch", &p.Epoch); err != nil {
		return err
	}
	var ttl string
	if err := o.take("ttl", "text such as 30s", &ttl); err != nil || ttl == "" && o["ttl"] == nil {
		return err
	}
	d, ok := literal.Duration(ttl)
	if !ok {
		return invalidBody("ttl: %.40q is not a duration such as 30s", ttl)
	}
	p.TTL = d
	return nil
}

// takeTime sets a time, if an object has one.
func takeTime(o object, key string, to *time.Time) error {
	var text string
	if err := o.take(key, "text", &text); err != nil || o[key] == nil {
		return err
	}
	t, ok := literal.Time(text)
	if !ok {
		return invalidBody("%s: %.40q is not a time such as 2026-01-31T00:00:00.000Z", key, text)
	}
	*to = t
	return nil
}

// deletePool answers DELETE /worker-pools/{pool}.
func deletePool(c *gin.Context, workers admin.Workers) error {
	values, err := readQuery(c.Request.URL.RawQuery, "force")
	if err != nil {
		return err
	}
	force, _, err := readFlag(values, "force")
	if err != nil {
		return err
	}
	check, err := readCondition(c.Request)
	if err != nil {
		return err
	}
	p, err := workers.DeletePool(c.Request.Context(), c.Param("pool"), force, func(p *admin.WorkerPool) error { return check(p.Revision) })
	if err != nil {
		return err
	}
	setRevision(c, p.Revision)
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// shownLease is a lease as its holder sees it.
type shownLease struct {
	Pool     string `json:"pool,omitempty"`
	WorkerID int64  `json:"workerId"`
	Lease    string `json:"lease"`
	// After and what follows TTL is only set in the answer that leases the worker ID.
	After        string `json:"after,omitempty"`
	Until        string `json:"until"`
	TTL          string `json:"ttl"`
	Epoch        string `json:"epoch,omitempty"`
	BitsMachine  int    `json:"bitsMachine,omitempty"`
	BitsSequence int    `json:"bitsSequence,omitempty"`
}

// leaseWorker answers POST /workers/{pool}.
func leaseWorker(c *gin.Context, workers admin.Workers) error {
	values, err := readQuery(c.Request.URL.RawQuery, "wait")
	if err != nil {
		return err
	}
	wait, err := waitIn(values)
	if err != nil {
		return err
	}
	o, err := readObject(body(c), "instance")
	if err != nil {
		return err
	}
	var instance string
	if err := o.take("instance", "text", &instance); err != nil {
		return err
	}
	l, err := workers.Lease(c.Request.Context(), c.Param("pool"), instance, wait)
	restartWriteTimeout(c) // it may have waited for longer
	if err != nil {
		return err
	}
	writeJSON(c, http.StatusCreated, jsonType, shownLease{
		Pool: l.Name, WorkerID: l.ID, Lease: l.Lease, After: shownTime(l.After), Until: shownTime(l.Until), TTL: literal.ShortDuration(l.TTL),
		Epoch: shownTime(l.Epoch), BitsMachine: l.BitsMachine, BitsSequence: l.BitsSequence,
	})
	return nil
}

// renewLease answers POST /workers/{pool}/{lease}.
func renewLease(c *gin.Context, workers admin.Workers) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	l, err := workers.Renew(c.Request.Context(), c.Param("pool"), c.Param("lease"))
	if err != nil {
		return err
	}
	writeJSON(c, http.StatusOK, jsonType, shownLease{WorkerID: l.ID, Lease: l.Lease, Until: shownTime(l.Until), TTL: literal.ShortDuration(l.TTL)})
	return nil
}

// releaseLease answers DELETE /workers/{pool}/{lease}, which needs no body.
func releaseLease(c *gin.Context, workers admin.Workers) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	var last time.Time
	if hasBody(c) {
		o, err := readObject(body(c), "last")
		if err != nil {
			return err
		}
		if err := takeTime(o, "last", &last); err != nil {
			return err
		}
	}
	if err := workers.Release(c.Request.Context(), c.Param("pool"), c.Param("lease"), last); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}
