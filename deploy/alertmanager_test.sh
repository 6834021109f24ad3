#!/usr/bin/env bash
# Tests alertmanager.yml with a real Alertmanager: which alerts of one installation are held back
# because another one says their cause, and that those of another installation are not.
#   deploy/alertmanager_test.sh    needs the Debian package prometheus-alertmanager
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap '[ -z "${manager:-}" ] || kill "$manager"; rm -rf "$work"' EXIT
amtool check-config alertmanager.yml >/dev/null
touch "$work/log" # it is read before the program has started
prometheus-alertmanager --config.file=alertmanager.yml --storage.path="$work" --web.listen-address=127.0.0.1:0 \
	--cluster.listen-address= 2>"$work/log" &
manager=$!
for ((i = 0; i < 1200; i++)); do
	port=$(sed -n 's/.*Listening on.*address=127.0.0.1:\([0-9]*\).*/\1/p' "$work/log")
	[ -z "$port" ] || break
	kill -0 "$manager" || { cat "$work/log" && exit 1; }
	sleep 0.1
done
ask() { amtool --alertmanager.url="http://127.0.0.1:$port" alert "$@"; }

# prod has lost its store; its third node is ill for a reason of its own, and staging for another
for node in 1 2; do
	for alert in SeqdStoreDown SeqdUnready SeqdLeaseShort SeqdFeedFailures SeqdPoolWaiting; do
		ask add "alertname=$alert" severity=critical job=seqd env=prod "instance=p$node"
	done
done
ask add alertname=SeqdErrorRatio severity=critical job=seqd env=prod
ask add alertname=SeqdSnapshotOld severity=warning job=seqd env=prod
ask add alertname=SeqdSnapshotOld severity=warning job=seqd env=staging
ask add alertname=SeqdUnready severity=critical job=seqd env=prod instance=p3
ask add alertname=SeqdErrorRatio severity=critical job=seqd env=staging
ask add alertname=SeqdSegmentExhaustion severity=warning job=seqd env=prod biz_type=order
ask add alertname=SeqdSegmentExhaustion severity=warning job=seqd env=prod biz_type=bill
ask add alertname=SeqdSegmentExhaustionNear severity=critical job=seqd env=prod biz_type=bill
# qa waits for an operator after a failover, and its certificate and its disk have two alerts each
ask add alertname=SeqdStoreFailedOver severity=critical job=seqd env=qa
ask add alertname=SeqdUnready severity=critical job=seqd env=qa instance=q1
ask add alertname=SeqdUnready severity=critical job=seqd env=qa instance=q2
ask add alertname=SeqdErrorRatio severity=critical job=seqd env=qa
for node in q1 q2; do
	ask add alertname=SeqdDiskNearlyFull severity=warning job=seqd env=qa instance=$node
done
ask add alertname=SeqdDiskFull severity=critical job=seqd env=qa instance=q1
ask add alertname=SeqdCertificateEnds severity=warning job=seqd env=qa
ask add alertname=SeqdCertificateEndsNear severity=critical job=seqd env=qa
ask add alertname=SeqdCertificateEnds severity=warning job=seqd env=staging
# dev is slow, because its operations wait for connections
ask add alertname=SeqdSlow severity=warning job=seqd env=dev strategy=segment
ask add alertname=SeqdPoolWaiting severity=warning job=seqd env=dev instance=d1 backend=store
ask add alertname=SeqdDown severity=critical job=seqd env=test
ask add alertname=SeqdTargetDown severity=warning job=seqd env=test instance=t1
ask add alertname=DiskFull severity=critical job=node env=test instance=t1

cat >"$work/want" <<END
DiskFull test t1
SeqdCertificateEnds staging
SeqdCertificateEndsNear qa
SeqdDiskFull qa q1
SeqdDiskNearlyFull qa q2
SeqdDown test
SeqdErrorRatio staging
SeqdPoolWaiting dev d1
SeqdSegmentExhaustion prod order
SeqdSegmentExhaustionNear prod bill
SeqdSnapshotOld staging
SeqdStoreDown prod p1
SeqdStoreDown prod p2
SeqdStoreFailedOver qa
SeqdUnready prod p3
END
# shown prints the alerts of which somebody is notified.
shown() {
	ask query --active --output=json | grep -o '"labels":{[^}]*}' | tr -d '"{}' | sed 's/^labels://' | while IFS= read -r labels; do
		value() { tr , '\n' <<<"$labels" | sed -n "s/^$1://p"; }
		echo "$(value alertname) $(value env) $(value biz_type)$(value instance)"
	done | sed 's/ $//' | sort
}
for ((i = 0; i < 1200; i++)); do # Alertmanager takes note of alerts in the background
	shown >"$work/got"
	! cmp -s "$work/want" "$work/got" || exit 0
	sleep 0.1
done
diff "$work/want" "$work/got" >&2 || echo "alertmanager.yml: these alerts are notified, wanted are those with <" >&2
exit 1
