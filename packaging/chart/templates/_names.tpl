{{/* ostiary.name is the name of all objects: that of the release. */}}
{{- define "ostiary.name" -}}
{{- if gt (len .Release.Name) 45 -}}
  {{- fail (printf "the name of the release, %q, has %d bytes, expected at most 45" .Release.Name (len .Release.Name)) -}}
{{- end -}}
{{- .Release.Name -}}
{{- end -}}

{{/* ostiary.selector has the labels by which the pods of a release are found. */}}
{{- define "ostiary.selector" -}}
app.kubernetes.io/name: ostiary
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ostiary.labels" -}}
{{ include "ostiary.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* ostiary.replicas is the number of nodes. */}}
{{- define "ostiary.replicas" -}}
{{- if kindIs "invalid" .Values.replicas -}}
  {{- eq .Values.shape "nodes" | ternary 3 1 -}}
{{- else -}}
  {{- int .Values.replicas -}}
{{- end -}}
{{- end -}}

{{- define "ostiary.image" -}}
{{- if .Values.image.digest -}}
  {{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
  {{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* ostiary.gomemlimit is nine tenths of the memory limit in bytes, or nothing without a limit. */}}
{{- define "ostiary.gomemlimit" -}}
{{- with dig "limits" "memory" "" .Values.resources -}}
{{- $limit := toString . -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- $number := regexFind "^[0-9]+" $limit -}}
{{- $unit := trimPrefix $number $limit -}}
{{- if or (not $number) (not (hasKey $units $unit)) -}}
  {{- fail (printf "resources.limits.memory: %q, expected a whole number with Mi or Gi, for example 2Gi" $limit) -}}
{{- end -}}
{{- div (mul (atoi $number) (get $units $unit) 9) 10 -}}
{{- end -}}
{{- end -}}

{{/* ostiary.probe is where probes ask: the port of metrics, or that of HTTP without it. */}}
{{- define "ostiary.probe" -}}
{{- if .Values.metrics.enabled -}}
port: metrics
{{- else -}}
port: http
{{- if .Values.tls.secret }}
scheme: HTTPS
{{- end }}
{{- end -}}
{{- end -}}
