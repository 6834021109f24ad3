package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

// Allocate implements [sqlstore.DB] by one UPDATE, which the server executes atomically (invariant
// U1): it waits for the lock of the row, and then reads the newest version of it, at every
// isolation level. MySQL has no UPDATE … RETURNING. LAST_INSERT_ID(expr) makes the server return
// the value in its answer to the UPDATE, so there is one round trip.
func (d *db) Allocate(ctx context.Context, req persist.Request, now int64) (highest int64, err error) {
	statement, params := allocation(req, now, d.fence)
	var result sql.Result
	err = d.unlocked(ctx, func() error {
		result, err = d.exec(ctx, d.pool, "allocate", statement, params)
		return err
	})
	if err != nil {
		return 0, err
	}
	matched, err := result.RowsAffected()
	if err == nil && matched == 0 {
		err = persist.ErrNotFound
	}
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// allocation returns the statement for a request, and its parameters.
//
// Assignments are evaluated from left to right, and later ones see what earlier ones assigned. So
// the maximum, which depends on the step, comes first, and the fence, which the others compare,
// last. The condition is evaluated before all of them. If the present fence is NULL, nothing
// changes.
func allocation(req persist.Request, now int64, fence string) (string, []any) {
	failedOver, compares := "fence <> "+fence, !sabotage.Off(sabotage.FenceCompared)
	base := "highest"
	if req.Floor > 0 {
		above := req.Floor + min(req.Gap, persist.MaxNumber-req.Floor)
		base = fmt.Sprintf("IF(highest < %d, %d, highest)", req.Floor, above)
	}
	if (req.FailoverGap > 0 || req.FailoverSteps > 0) && compares {
		gap := fmt.Sprintf("GREATEST(%d, LEAST(step, %d) * %d)", req.FailoverGap, req.MostFailoverStep(), req.FailoverSteps)
		base = fmt.Sprintf("%s + IF(%s, LEAST(%s * %s, (%d - %s) DIV 2), 0)", base, failedOver, gap, failovers, persist.MaxNumber, base)
	}
	next := fmt.Sprintf("%s + %d", base, req.Size)
	set := []string{"highest = LAST_INSERT_ID(" + next + ")"}
	if req.Step > 0 {
		set = append(set, fmt.Sprintf("step = %d, step_at = %d", req.Step, now))
	}
	switch {
	case !req.To.Keeps():
		set = append(set, "epoch = '"+req.To.Epoch()+"'") // it is "", "store" or hexadecimal digits
	case compares:
		set = append(set, "epoch = IF("+failedOver+", '', epoch)")
	}
	set = append(set, "fence = "+fence)
	params := []any{[]byte(req.BizTag)}
	believed, epoch := believing(req, compares, fence)
	if believed != "" {
		params = append(params, epoch)
	}
	return fmt.Sprintf("UPDATE seqd_counters SET %s WHERE name = ? AND version = %d"+
		" AND highest BETWEEN 0 AND %d AND step BETWEEN 1 AND %[3]d AND LENGTH(epoch) IN (0, %[4]d, 32) AND %[5]s <= %[3]d AND %[6]s IS NOT NULL%[7]s",
		strings.Join(set, ", "), persist.FormatVersion, persist.MaxNumber, len(persist.StoreEpoch), next, fence, believed), params
}

// believing returns the condition that the counter has the epoch that a request needs, and its
// parameter. After a failover every counter has none.
func believing(req persist.Request, compares bool, fence string) (condition string, epoch []byte) {
	needed, ok := req.To.Needs()
	epoch = []byte(needed)
	switch {
	case !ok || sabotage.Off(sabotage.EpochHeld):
		return "", nil
	case !compares:
		return " AND epoch = ?", epoch
	case needed == "":
		return " AND (epoch = ? OR fence <> " + fence + ")", epoch
	}
	return " AND epoch = ? AND fence = " + fence, epoch
}
