{{/* The flags of `hearth run`: each value of `settings` that is set, and the names in the roles. */}}
{{- define "hearth.args" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- if .Values.webhook.enabled -}}
{{- if ne (include "hearth.name" .) "hearth" -}}
{{- $_ := set $settings "webhookConfiguration" (include "hearth.webhookConfiguration" .) -}}
{{- $_ := set $settings "webhookSecret" (include "hearth.webhookSecret" .) -}}
{{- end -}}
{{- else -}}
{{- $_ := unset $settings "webhookAddress" -}}
{{- end -}}
{{- if and (eq ($settings.tenancy | default "isolated") "strict") (kindIs "invalid" $settings.namespacedWatches) -}}
{{- /* It may not watch the Secrets of all namespaces. */ -}}
{{- $_ := set $settings "namespacedWatches" "Secret" -}}
{{- end -}}
{{- if .Values.notifications.secretName -}}
{{- $_ := set $settings "notificationDir" "/etc/hearth/notifications" -}}
{{- end -}}
- run
{{- range $key, $value := $settings }}
{{- if kindIs "bool" $value }}
{{- if $value }}
- --{{ kebabcase $key }}
{{- else if has $key (list "otherClusters" "allowLoopbackClusters" "checkAuthors" "leaderElection") }}
- --no-{{ kebabcase $key }}
{{- end }}
{{- else if not (kindIs "invalid" $value) }}
- {{ printf "--%s=%v" (kebabcase $key) $value | quote }}
{{- end }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ quote . }}
{{- end }}
{{- end -}}

{{- define "hearth.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "hearth.pod" -}}
serviceAccountName: {{ include "hearth.serviceAccount" . }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.topologySpreadConstraints.enabled }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: {{ .Values.topologySpreadConstraints.whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "hearth.selectorLabels" . | nindent 8 }}
{{- end }}
# It stops within five seconds.
terminationGracePeriodSeconds: 10
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
containers:
  - name: hearth
    image: {{ include "hearth.image" . | quote }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
      {{- include "hearth.args" . | nindent 6 }}
    env:
      - name: HEARTH_POD_NAMESPACE
        valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
      - name: HEARTH_POD_NAME
        valueFrom: {fieldRef: {fieldPath: metadata.name}}
      - name: HEARTH_POD_UID
        valueFrom: {fieldRef: {fieldPath: metadata.uid}}
      {{- with .Values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    ports:
      - name: http
        containerPort: {{ include "hearth.port" .Values.settings.httpAddress }}
      {{- if .Values.webhook.enabled }}
      - name: webhook
        containerPort: {{ include "hearth.port" .Values.settings.webhookAddress }}
      {{- end }}
    livenessProbe:
      httpGet:
        path: /healthz
        port: http
      periodSeconds: 20
      timeoutSeconds: 5
    readinessProbe:
      httpGet:
        path: /readyz
        port: http
      periodSeconds: 5
    resources:
      {{- toYaml .Values.resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    volumeMounts:
      - name: tmp
        mountPath: /tmp
      {{- if .Values.notifications.secretName }}
      - name: notifications
        mountPath: /etc/hearth/notifications
        readOnly: true
      {{- end }}
      {{- with .Values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  # TLS keys pass through a file for a moment, because Python cannot load them from memory.
  - name: tmp
    emptyDir:
      medium: Memory
      sizeLimit: 16Mi
  {{- with .Values.notifications.secretName }}
  - name: notifications
    secret:
      secretName: {{ . }}
      defaultMode: 0440
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}
