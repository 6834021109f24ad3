{{/* The name of every object: that of the release. */}}
{{- define "seqd.name" -}}
{{ .Release.Name | trunc 53 | trimSuffix "-" }}
{{- end }}

{{/* What pods are selected by. It cannot change. */}}
{{- define "seqd.selector" -}}
app.kubernetes.io/name: seqd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "seqd.labels" -}}
{{ include "seqd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "seqd.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "seqd.name" .) }}
{{- end }}

{{- define "seqd.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* "true" if one node keeps its numbers on a volume. */}}
{{- define "seqd.bolt" -}}
{{ eq .Values.config.store.driver "bolt" | ternary "true" "" }}
{{- end }}

{{/* "true" if the number of nodes follows their load. */}}
{{- define "seqd.autoscales" -}}
{{ and .Values.autoscaling.enabled (not (include "seqd.bolt" .)) | ternary "true" "" }}
{{- end }}

{{/*
Fails if a key that holds a secret is set somewhere in the configuration, because a ConfigMap is no
place for it. The argument is a dict: at (the path so far) and value.
*/}}
{{- define "seqd.noSecrets" -}}
{{- $at := .at }}
{{- if kindIs "map" .value }}
{{- range $key, $value := .value }}
{{- $path := printf "%s.%s" $at $key }}
{{- if and (has $key (list "url" "uri" "dsn" "password" "sentinelPassword" "tokens" "token" "key" "secret")) $value }}
{{- fail (printf "%s is a secret, and a ConfigMap is no place for it: put it into the Secret %s" $path "that secretName names, as docs/CONFIGURATION.md says") }}
{{- end }}
{{- include "seqd.noSecrets" (dict "at" $path "value" $value) }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- range $i, $value := .value }}
{{- include "seqd.noSecrets" (dict "at" (printf "%s[%d]" $at $i) "value" $value) }}
{{- end }}
{{- else if and (kindIs "string" .value) (regexMatch "://[^/]*@" .value) }}
{{- fail (printf "%s has a user or password, and a ConfigMap is no place for it: put it into the Secret that secretName names" $at) }}
{{- end }}
{{- end }}

{{/* Fails, with a sentence that says what to do, if values contradict each other. */}}
{{- define "seqd.check" -}}
{{- $config := .Values.config }}
{{- include "seqd.noSecrets" (dict "at" "config" "value" $config) }}
{{- range list "drainDelay" "stopTimeout" }}
{{- if hasKey ($config.server | default dict) . }}
{{- fail (printf "config.server.%s: set drain.delaySeconds and drain.stopSeconds in its place, so that the pod has enough time" .) }}
{{- end }}
{{- end }}
{{- if and .Values.autoscaling.enabled (include "seqd.bolt" .) }}
{{- fail "autoscaling.enabled: the file of bolt belongs to one node; choose another store, or leave it at false" }}
{{- end }}
{{- if and .Values.autoscaling.enabled (lt (int .Values.autoscaling.maxReplicas) (int .Values.replicas)) }}
{{- fail (printf "autoscaling.maxReplicas is %d, below replicas, the least number of nodes, which is %d" (int .Values.autoscaling.maxReplicas) (int .Values.replicas)) }}
{{- end }}
{{- if include "seqd.bolt" . }}
{{- $file := include "seqd.absolute" (dig "store" "bolt" "path" "data/seqd.db" $config) }}
{{- $found := false }}
{{- range append .Values.extraVolumeMounts (dict "mountPath" "/var/lib/seqd") }}{{ if hasPrefix (printf "%s/" (clean .mountPath)) $file }}{{ $found = true }}{{ end }}{{ end }}
{{- if not $found }}
{{- fail (printf "config.store.bolt.path: %s is on no volume, so its numbers would be lost with the pod: take a path below /var/lib/seqd, or mount a volume of yours there by extraVolumes and extraVolumeMounts" $file) }}
{{- end }}
{{- end }}
{{- with include "seqd.snapshotFolder" . }}
{{- if or (hasPrefix (printf "%s/" (trimSuffix "/" .)) "/var/lib/seqd/") (hasPrefix (printf "%s/" (trimSuffix "/" .)) "/etc/seqd/") }}
{{- fail (printf "config.snapshots.folder: a volume is mounted there, and %s has other files: take a folder of its own, such as /var/lib/seqd/snapshots" .) }}
{{- end }}
{{- end }}
{{- if not (or .Values.secretName .Values.secretFiles (and (eq $config.store.driver "bolt") (eq (($config.auth | default dict).mode | default "auto") "none"))) }}
{{- fail "secretName is empty: only bolt with config.auth.mode none needs no secret" }}
{{- end }}
{{- end }}

{{/* The configuration file: that of the values, and what follows from other values. */}}
{{- define "seqd.config" -}}
{{- $name := include "seqd.name" . }}
{{- $hosts := list $name }}
{{- range list "" ".svc" ".svc.cluster.local" }}
{{- $hosts = append $hosts (printf "%s.%s%s" $name $.Release.Namespace .) }}
{{- end }}
{{- if .Values.ingress.enabled }}{{ $hosts = concat $hosts .Values.ingress.hosts }}{{ end }}
{{- $server := dict "drainDelay" (printf "%ss" (include "seqd.delay" .)) "stopTimeout" (printf "%ds" (int .Values.drain.stopSeconds)) "hosts" $hosts }}
{{- $config := deepCopy .Values.config }}
{{- $_ := set $config "server" (merge dict ($config.server | default dict) $server) }}
{{- if not (hasKey ($config.auth | default dict) "publicMetrics") }}
{{- $_ := set $config "auth" (merge (dict "publicMetrics" (and .Values.networkPolicy.enabled (not .Values.ingress.enabled) (eq .Values.service.type "ClusterIP"))) ($config.auth | default dict)) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* The ports of the store, of Redis and of the coordinator, as JSON. The address of the store is in the Secret, so its port is the usual one. */}}
{{- define "seqd.dataPorts" -}}
{{- $ports := dict "mongo" 27017 "postgres" 5432 "mysql" 3306 }}
{{- $list := list }}
{{- with get $ports .Values.config.store.driver }}{{ $list = append $list . }}{{ end }}
{{- with .Values.config.redis }}
{{- range .addrs }}{{ $list = append $list (regexFind "[0-9]+$" . | int) }}{{ end }}
{{- if and .addrs .masterName }}{{ $list = append $list 6379 }}{{ end }}
{{- end }}
{{- range dig "coordination" "addrs" list .Values.config }}{{ $list = append $list (regexFind "[0-9]+$" . | int) }}{{ end }}
{{- .Values.networkPolicy.dataPorts | default (sortAlpha $list | uniq) | toJson }}
{{- end }}

{{/* The port of the collector of traces. */}}
{{- define "seqd.collectorPort" -}}
{{- $url := urlParse (dig "tracing" "endpoint" "" .Values.config) }}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (get (dict "https" "443" "http" "80") $url.scheme) | default "4318" }}
{{- end }}

{{/* The port for everything but Redis clients. */}}
{{- define "seqd.port" -}}
{{ dig "server" "addr" "" .Values.config | regexFind "[0-9]+$" | default "8080" }}
{{- end }}

{{/* For how many seconds a node that stops keeps its port open. With one node no balancer has another. */}}
{{- define "seqd.delay" -}}
{{ include "seqd.bolt" . | empty | ternary .Values.drain.delaySeconds 0 | int }}
{{- end }}

{{/* "true" if the folder that nodes may write to is a volume of the values. */}}
{{- define "seqd.ownFolder" -}}
{{- range .Values.extraVolumeMounts }}{{ if eq .mountPath "/var/lib/seqd" }}true{{ end }}{{ end }}
{{- end }}

{{/* The folder of scheduled snapshots, if there are some and no volume of the values is mounted there or above. */}}
{{- define "seqd.snapshotFolder" -}}
{{- $folder := dig "snapshots" "folder" "" .Values.config | include "seqd.absolute" }}
{{- $needed := and $folder (dig "snapshots" "every" "" .Values.config | toString | regexMatch "[1-9]") }}
{{- range .Values.extraVolumeMounts }}{{ if hasPrefix (printf "%s/" (clean .mountPath)) (printf "%s/" $folder) }}{{ $needed = false }}{{ end }}{{ end }}
{{- if $needed }}{{ $folder }}{{ end }}
{{- end }}

{{/* A path as a node sees it: relative ones begin at the folder that the image works in. */}}
{{- define "seqd.absolute" -}}
{{ with . }}{{ isAbs . | ternary . (printf "/var/lib/seqd/%s" .) | clean }}{{ end }}
{{- end }}

{{/* How probes and Prometheus reach a node. */}}
{{- define "seqd.scheme" -}}
{{ dig "server" "tls" "certFile" "" .Values.config | empty | ternary "HTTP" "HTTPS" }}
{{- end }}

{{/* The port for Redis clients, empty if there is none. */}}
{{- define "seqd.respPort" -}}
{{ dig "resp" "addr" "" .Values.config | regexFind "[0-9]+$" }}
{{- end }}

{{/* The template of the pods. */}}
{{- define "seqd.pod" -}}
{{- $bolt := include "seqd.bolt" . }}
metadata:
  labels:
    {{- include "seqd.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A change of the configuration rolls out.
    checksum/config: {{ include "seqd.config" . | sha256sum }}
    {{- if not .Values.serviceMonitor.enabled }}
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ include "seqd.port" . | quote }}
    prometheus.io/path: /metrics
    prometheus.io/scheme: {{ include "seqd.scheme" . | lower }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "seqd.serviceAccount" . }}
  automountServiceAccountToken: false
  # For a Service called seqd Kubernetes sets variables that begin with SEQD_. They are not keys of
  # seqd.
  enableServiceLinks: false
  # More than server.drainDelay + 2 x server.stopTimeout. Unused numbers are returned in that time.
  terminationGracePeriodSeconds: {{ add (include "seqd.delay" .) (mul 2 .Values.drain.stopSeconds) 5 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    {{- if or $bolt (include "seqd.snapshotFolder" .) }}
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  {{- if and .Values.topologySpread.enabled (not $bolt) }}
  topologySpreadConstraints:
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $.Values.topologySpread.whenUnsatisfiable }}
      labelSelector:
        matchLabels: {{- include "seqd.selector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  containers:
    - name: seqd
      image: {{ include "seqd.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      ports:
        - {name: http, containerPort: {{ include "seqd.port" . }}}
        {{- with include "seqd.respPort" . }}
        - {name: resp, containerPort: {{ . }}}
        {{- end }}
      {{- with .Values.secretName }}
      envFrom:
        - secretRef: {name: {{ . }}}
      {{- end }}
      env:
        # Near the limit, garbage is collected more often.
        - {name: GOMEMLIMIT, value: {{ .Values.goMemLimit | quote }}}
        {{- with dig "server" "addr" "" .Values.config }}
        # The variable of the image would take precedence over the file.
        - {name: SEQD_SERVER_ADDR, value: {{ . | quote }}}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumeMounts:
        - {name: config, mountPath: /etc/seqd, readOnly: true}
        {{- if not (include "seqd.ownFolder" .) }}
        - {name: data, mountPath: /var/lib/seqd}
        {{- end }}
        {{- with include "seqd.snapshotFolder" . }}
        - {name: snapshots, mountPath: {{ . | quote }}}
        {{- end }}
        {{- if .Values.secretFiles }}
        - {name: secrets, mountPath: /etc/seqd-secrets, readOnly: true}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      # The liveness probe checks only the process. It must not be restarted because the store is
      # away. A node that starts without the store opens its port and waits.
      startupProbe:
        httpGet: {path: /healthz, port: http, scheme: {{ include "seqd.scheme" . }}}
        periodSeconds: 1
        timeoutSeconds: 2
        failureThreshold: 30
      livenessProbe:
        httpGet: {path: /healthz, port: http, scheme: {{ include "seqd.scheme" . }}}
        periodSeconds: 10
        timeoutSeconds: 2
        failureThreshold: 3
      readinessProbe:
        httpGet: {path: {{ include "seqd.readyz" . | quote }}, port: http, scheme: {{ include "seqd.scheme" . }}}
        periodSeconds: 3
        timeoutSeconds: 2
        failureThreshold: 2
  volumes:
    - name: config
      configMap: {name: {{ include "seqd.name" . }}}
    {{- if and (not $bolt) (not (include "seqd.ownFolder" .)) }}
    # Files of a node, such as stateDir and history. They are lost with the pod.
    - {name: data, emptyDir: {sizeLimit: 1Gi}}
    {{- end }}
    {{- if and $bolt .Values.volume.existingClaim }}
    - name: data
      persistentVolumeClaim: {claimName: {{ .Values.volume.existingClaim }}}
    {{- end }}
    {{- if include "seqd.snapshotFolder" . }}
    - name: snapshots
      persistentVolumeClaim: {claimName: {{ .Values.snapshotVolume.existingClaim | default (printf "%s-snapshots" (include "seqd.name" .)) }}}
    {{- end }}
    {{- with .Values.secretFiles }}
    - name: secrets
      secret: {secretName: {{ . }}}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* The path of the readiness probe. */}}
{{- define "seqd.readyz" -}}
/readyz{{ with .Values.readiness.bizTypes }}?bizType={{ join "," . }}{{ end }}
{{- end }}
