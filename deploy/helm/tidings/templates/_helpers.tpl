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

{{/* A start may read a large journal first. A process is restarted when only that helps (/healthz), and is left alone while
something that it needs is away (/readyz). The admin port answers even while clients overload the public one. */}}
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

{{/* Takes the root and the entries of the secret that the pod gets; all of them if the list is empty. */}}
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
