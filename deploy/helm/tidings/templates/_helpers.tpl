{{- define "tidings.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidings.labels" -}}
app.kubernetes.io/name: tidings
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "tidings.selector" -}}
app.kubernetes.io/name: tidings
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidings.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* A pod that may do nothing but read its image, write its directory and talk. */}}
{{- define "tidings.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "tidings.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* A start may read a large journal first. A process is restarted when only that helps (/healthz), and gets no clients
while it drains or lacks an engine that its role needs (/readyz). The admin port answers even while clients overload the public one. */}}
{{- define "tidings.probes" -}}
startupProbe:
  httpGet: { path: /healthz, port: admin }
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet: { path: /healthz, port: admin }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: { path: /readyz, port: admin }
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
lifecycle:
  preStop:
    exec:
      command: [/usr/bin/tidings, admin, drain, --config, /etc/tidings/tidings.toml, --timeout, "{{ .Values.drainSeconds }}"]
{{- end -}}

{{- define "tidings.mounts" -}}
- { name: config, mountPath: /etc/tidings, readOnly: true }
- { name: data, mountPath: /var/lib/tidings }
{{- if .Values.secretName }}
- { name: secrets, mountPath: /run/secrets/tidings, readOnly: true }
{{- end }}
{{- end -}}

{{/* Takes the root and the entries of the secret that the pod gets, with more of them as text; all of them if the list is
empty. */}}
{{- define "tidings.volumes" -}}
- name: config
  configMap: { name: {{ include "tidings.name" .root }} }
{{- if .root.Values.secretName }}
- name: secrets
  secret:
    secretName: {{ .root.Values.secretName }}
    defaultMode: 0440
    {{- with .files }}
    items:
      {{- toYaml . | nindent 6 }}
      {{- with $.more }}
      {{- . | nindent 6 }}
      {{- end }}
    {{- end }}
{{- end }}
{{- end -}}

{{/* What differs from docs/tidings.example.toml in every pod. */}}
{{- define "tidings.env" -}}
- { name: TIDINGS_LISTEN, value: "0.0.0.0:8080" }
- { name: TIDINGS_ADMIN__LISTEN, value: "0.0.0.0:9464" }
{{- with .Values.trustedProxies }}
- { name: TIDINGS_TRUSTED_PROXIES, value: {{ . | quote }} }
{{- end }}
{{- if eq .Values.shape "fleet" }}
# All users may write to the root of such a volume; the process creates a directory of its own in it.
- { name: TIDINGS_DATA_DIR, value: /var/lib/tidings/data }
{{- else }}
- { name: TIDINGS_DATA_DIR, value: /var/lib/tidings }
{{- end }}
- { name: TIDINGS_LOG__FORMAT, value: json }
{{- with .Values.allowedOrigins }}
- { name: TIDINGS_ALLOWED_ORIGINS, value: {{ . | quote }} }
{{- end }}
{{- with .Values.telemetry.otlpEndpoint }}
- { name: TIDINGS_TELEMETRY__OTLP_ENDPOINT, value: {{ . | quote }} }
- { name: TIDINGS_TELEMETRY__TRACE_RATIO, value: {{ $.Values.telemetry.traceRatio | quote }} }
{{- end }}
{{- end -}}

{{/* The calls to other servers that one pod, or the pods of the role api make. Their keys are entries of the secret. */}}
{{- define "tidings.outbound" -}}
{{- if and (eq .Values.shape "fleet") (not .Values.otp.webhookUrl) (not .Values.otp.sender) }}
{{- fail "a fleet needs a sender of one-time codes: set otp.webhookUrl; or otp.sender to `config` if your settings name the sender or switch phone sign-in off; or to `log` for a trial" }}
{{- end }}
{{- if eq .Values.otp.sender "log" }}
- { name: TIDINGS_AUTH__OTP__SENDER, value: log }
{{- end }}
{{- with .Values.otp.webhookUrl }}
- { name: TIDINGS_AUTH__OTP__SENDER, value: webhook }
- { name: TIDINGS_AUTH__OTP__WEBHOOK_URL, value: {{ . | quote }} }
- { name: TIDINGS_AUTH__OTP__WEBHOOK_SECRET_FILE, value: /run/secrets/tidings/otp.secret }
{{- end }}
{{- with .Values.webhook.url }}
- { name: TIDINGS_WEBHOOK__URL, value: {{ . | quote }} }
- { name: TIDINGS_WEBHOOK__EVENTS, value: {{ $.Values.webhook.events | quote }} }
- { name: TIDINGS_WEBHOOK__SECRET_FILE, value: /run/secrets/tidings/webhook.secret }
{{- end }}
{{- end -}}

{{/* The entries of the secret that these calls need. Kubernetes starts no pod that lacks a listed entry. */}}
{{- define "tidings.outboundFiles" -}}
{{- if .Values.otp.webhookUrl }}
- { key: otp.secret, path: otp.secret }
{{- end }}
{{- if .Values.webhook.url }}
- { key: webhook.secret, path: webhook.secret }
{{- end }}
{{- end -}}

{{- define "tidings.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
