{{/* The name of the installation; it begins the name of each object. */}}
{{- define "hearth.name" -}}
{{- if .Values.nameOverride -}}
{{ .Values.nameOverride }}
{{- else if contains "hearth" .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-hearth" (.Release.Name | trunc 33 | trimSuffix "-") }}
{{- end -}}
{{- end -}}

{{- define "hearth.selectorLabels" -}}
app.kubernetes.io/name: hearth
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hearth.labels" -}}
{{ include "hearth.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "hearth.serviceAccount" -}}
{{- if .Values.serviceAccount.name -}}
{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create -}}
{{ include "hearth.name" . }}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{/* Names that the flags and the rights share. */}}
{{- define "hearth.webhookConfiguration" -}}
{{ .Values.settings.webhookConfiguration | default (printf "%s-webhook" (include "hearth.name" .)) }}
{{- end -}}
{{- define "hearth.webhookSecret" -}}
{{ .Values.settings.webhookSecret | default (printf "%s-webhook" (include "hearth.name" .)) }}
{{- end -}}

{{/* The port of an address such as `:8080`. */}}
{{- define "hearth.port" -}}
{{ splitList ":" . | last }}
{{- end -}}

{{/*
An object of files/, as this release has it: names, namespaces and labels. It takes (dict "root" $ "object" $object) and
changes the object.
*/}}
{{- define "hearth.adapt" -}}
{{- $object := .object -}}
{{- $name := include "hearth.name" .root -}}
{{- $labels := merge (include "hearth.labels" .root | fromYaml) ($object.metadata.labels | default dict) -}}
{{- $_ := set $object.metadata "labels" $labels -}}
{{- if hasKey $object.metadata "namespace" -}}
{{- $_ := set $object.metadata "namespace" .root.Release.Namespace -}}
{{- end -}}
{{- $_ := set $object.metadata "name" (regexReplaceAll "^hearth" $object.metadata.name $name) -}}
{{- if hasKey $object "roleRef" -}}
{{- $_ := set $object.roleRef "name" (regexReplaceAll "^hearth" $object.roleRef.name $name) -}}
{{- $subject := dict "kind" "ServiceAccount" "name" (include "hearth.serviceAccount" .root) -}}
{{- $_ := set $object "subjects" (list (set $subject "namespace" .root.Release.Namespace)) -}}
{{- end -}}
{{- end -}}

{{/* Whether these values make an installation that cannot work: each mistake as a line. */}}
{{- define "hearth.mistakes" -}}
{{- $settings := .Values.settings -}}
{{- $alone := and (kindIs "bool" $settings.leaderElection) (not $settings.leaderElection) -}}
{{- if and (gt (int .Values.replicas) 1) $alone }}
- replicas is {{ .Values.replicas }} without settings.leaderElection: all of them would write. Set replicas to 1.
{{- end }}
{{- if and (eq ($settings.namespace | default "") .Release.Namespace) (not $settings.serveOperatorNamespace) }}
- settings.namespace is the namespace of the release: install into another one, or set settings.serveOperatorNamespace if only administrators write Stacks there.
{{- end }}
{{- if and (eq ($settings.tenancy | default "isolated") "strict") (not .Values.rbac.impersonate) }}
- settings.tenancy is strict, so every Stack acts as its ServiceAccount: this needs rbac.impersonate.
{{- end }}
{{- if and .Values.webhook.enabled (not $settings.webhookAddress) }}
- webhook.enabled needs settings.webhookAddress, e.g. ":9443".
{{- end }}
{{- if .Values.page.enabled }}
{{- if not .Values.page.urls }}
- page.enabled needs page.urls, e.g. ["https://hearth.example.com"].
{{- end }}
{{- if and (not .Values.page.tlsSecret) (not .Values.page.plainHttp) }}
- page.enabled needs page.tlsSecret, or page.plainHttp behind a proxy that terminates TLS.
{{- end }}
{{- if and (gt (int .Values.page.replicas) 1) (not .Values.page.keySecret) }}
- page.replicas is {{ .Values.page.replicas }} without page.keySecret: each pod would reject the cookies of the others.
{{- end }}
{{- end }}
{{- end -}}
