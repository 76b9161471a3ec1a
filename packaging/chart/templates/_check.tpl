{{/* ostiary.check fails if the values contradict each other. */}}
{{- define "ostiary.check" -}}
{{- $why := "a join token serves one node and ends after an hour, and a controller that replaces voters by itself can lose acknowledged writes: take shape: nodes, with a log in PostgreSQL" -}}
{{- if has .Values.shape (list "raft" "cluster") -}}
  {{- fail (printf "shape: %q: nodes that keep the log themselves do not run in Kubernetes: %s" .Values.shape $why) -}}
{{- end -}}
{{- if not (has .Values.shape (list "one" "nodes")) -}}
  {{- fail (printf "shape: %q, expected one (one node with a volume) or nodes (several nodes on PostgreSQL)" .Values.shape) -}}
{{- end -}}
{{- range $name := list "cluster" "join" "vote" -}}
  {{- if hasKey $.Values.settings $name -}}
    {{- fail (printf "settings.%s: nodes that keep the log themselves do not run in Kubernetes: %s" $name $why) -}}
  {{- end -}}
{{- end -}}
{{- range $name := list "auth" "auth-anonymous" -}}
  {{- if hasKey $.Values.settings $name -}}
    {{- fail (printf "settings.%s: the server always asks for keys (--auth keys), and the chart starts none that is open" $name) -}}
  {{- end -}}
{{- end -}}
{{- $own := dict "config" "" "http" "" "grpc" "" "data" ": use persistence" "auth-keys-file" ": use auth.keysSecret" "tls-cert" ": use tls.secret" "tls-key" ": use tls.secret" "tls-client-ca" ": use tls.clientCASecret" "tls-client-required" ": use tls.clientRequired" "secret-key-file" ": use secretKey.secret" "log" ": use database.urlSecret" "nodes-listen" "" "nodes-address" "" "nodes-ca" ": use nodes.tlsSecret" "nodes-certificate" ": use nodes.tlsSecret" "nodes-key" ": use nodes.tlsSecret" "metrics" ": use metrics.enabled" "metrics-exposed" ": use metrics.enabled" "metrics-tls" "" "drain-time" ": use stop.drainSeconds" "stop-timeout" ": use stop.stopSeconds" -}}
{{- range $name, $_ := .Values.settings -}}
  {{- if hasKey $own $name -}}
    {{- fail (printf "settings.%s: the chart sets --%s itself%s" $name $name (get $own $name)) -}}
  {{- end -}}
{{- end -}}
{{- if not .Values.auth.keysSecret.name -}}
  {{- fail "auth.keysSecret.name is empty: no server starts without keys; make a Secret with a file of keys, for example kubectl create secret generic ostiary-keys --from-literal=keys=\"first $(openssl rand -hex 32)\", and set auth.keysSecret.name=ostiary-keys" -}}
{{- end -}}
{{- if eq .Values.shape "one" -}}
  {{- if gt (int (include "ostiary.replicas" .)) 1 -}}
    {{- fail (printf "replicas: %s with shape: one: one node has its volume alone; several nodes need shape: nodes and database.urlSecret.name" (include "ostiary.replicas" .)) -}}
  {{- end -}}
  {{- if .Values.database.urlSecret.name -}}
    {{- fail (printf "database.urlSecret.name: %q with shape: one, whose data is on its volume: set shape: nodes, or leave out the database" .Values.database.urlSecret.name) -}}
  {{- end -}}
  {{- if .Values.nodes.tlsSecret -}}
    {{- fail (printf "nodes.tlsSecret: %q with shape: one, which has no other nodes: set shape: nodes, or leave it out" .Values.nodes.tlsSecret) -}}
  {{- end -}}
{{- else -}}
  {{- if not .Values.database.urlSecret.name -}}
    {{- fail "database.urlSecret.name is empty with shape: nodes: name a Secret with the URL of the log, postgres://USER:PASSWORD@HOST/NAME" -}}
  {{- end -}}
  {{- if not .Values.nodes.tlsSecret -}}
    {{- fail "nodes.tlsSecret is empty with shape: nodes: name a Secret with ca.crt, tls.crt and tls.key, which \"ostiary node certificate\" or cert-manager makes" -}}
  {{- end -}}
  {{- if not .Values.secretKey.secret.name -}}
    {{- fail "secretKey.secret.name is empty with shape: nodes: all nodes need the same key, for example kubectl create secret generic ostiary-secret-key --from-literal=key=\"$(openssl rand -base64 32)\"" -}}
  {{- end -}}
  {{- if .Values.persistence.existingClaim -}}
    {{- fail (printf "persistence.existingClaim: %q with shape: nodes: each node has a claim of its own" .Values.persistence.existingClaim) -}}
  {{- end -}}
  {{- if and (gt (int (include "ostiary.replicas" .)) 1) (ge (int .Values.podDisruptionBudget.maxUnavailable) (int (include "ostiary.replicas" .))) -}}
    {{- fail (printf "podDisruptionBudget.maxUnavailable: %d of %s replicas: expected fewer, so that one node serves" (int .Values.podDisruptionBudget.maxUnavailable) (include "ostiary.replicas" .)) -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.tls.clientCASecret (not .Values.tls.secret) -}}
  {{- fail (printf "tls.clientCASecret: %q without tls.secret: only a server with TLS asks for certificates" .Values.tls.clientCASecret) -}}
{{- end -}}
{{- if and .Values.tls.clientRequired (not .Values.tls.clientCASecret) -}}
  {{- fail "tls.clientRequired without tls.clientCASecret: name the authorities of clients' certificates" -}}
{{- end -}}
{{- if not .Values.metrics.enabled -}}
  {{- if .Values.metrics.serviceMonitor.enabled -}}
    {{- fail "metrics.serviceMonitor.enabled with metrics.enabled: false: there is nothing to scrape" -}}
  {{- end -}}
  {{- if .Values.tls.clientRequired -}}
    {{- fail "tls.clientRequired with metrics.enabled: false: probes have no certificate, so they need the port of metrics" -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.metrics) -}}
  {{- fail "metrics.serviceMonitor.enabled with an empty networkPolicy.metrics: Prometheus does not reach the metrics" -}}
{{- end -}}
{{- end -}}
