{{- define "stoker.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "stoker.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "stoker.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "stoker.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "stoker.selectorLabels" -}}
app.kubernetes.io/name: {{ include "stoker.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "stoker.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/name: {{ include "stoker.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "stoker.labels" -}}
{{ include "stoker.commonLabels" . }}
app.kubernetes.io/component: server
{{- end }}

{{/* The server's tag. */}}
{{- define "stoker.tag" -}}
{{- .Values.image.tag | default (printf "%s%s" .Chart.AppVersion (ternary "-cuda" "" (gt (int .Values.gpu.count) 0))) }}
{{- end }}

{{- define "stoker.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ include "stoker.tag" $ }}{{- end -}}
{{- end -}}
{{- end }}

{{- define "stoker.warmImage" -}}
{{- $repository := .Values.warm.image.repository | default .Values.image.repository -}}
{{- with .Values.warm.image -}}
{{- if .digest -}}{{ $repository }}@{{ .digest }}
{{- else -}}{{ $repository }}:{{ .tag | default (printf "%s-compile" (include "stoker.tag" $ | trimSuffix "-cuda")) }}{{- end -}}
{{- end -}}
{{- end }}

{{- define "stoker.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "stoker.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{- end }}
{{- end }}

{{/* How the cache gets filled: source, init, job or serve. */}}
{{- define "stoker.mode" -}}
{{- if .Values.cache.source }}source{{ else }}{{ .Values.warm.mode }}{{ end }}
{{- end }}

{{- define "stoker.warmClaim" -}}
{{- default (printf "%s-cache" (include "stoker.fullname" .)) .Values.warm.persistence.existingClaim }}
{{- end }}

{{/* A source (pvc://, oci:// or a folder) as a volume: dict "name" "source" "pullPolicy". */}}
{{- define "stoker.volume" -}}
{{- if hasPrefix "pvc://" .source }}
- name: {{ .name }}
  persistentVolumeClaim:
    claimName: {{ index (splitList "/" (trimPrefix "pvc://" .source)) 0 }}
    readOnly: true
{{- else if hasPrefix "oci://" .source }}
- name: {{ .name }}
  image:
    reference: {{ index (splitList "#" (trimPrefix "oci://" .source)) 0 | quote }}
    pullPolicy: {{ .pullPolicy }}
{{- end }}
{{- end }}

{{/* ... as a mount: dict "name" "source" "path". */}}
{{- define "stoker.mount" -}}
{{- if not (hasPrefix "/" .source) }}
- name: {{ .name }}
  mountPath: {{ .path }}
  readOnly: true
  {{- $folder := "" }}
  {{- if hasPrefix "pvc://" .source }}
  {{- $folder = rest (splitList "/" (trimPrefix "pvc://" .source)) | join "/" }}
  {{- else }}
  {{- $folder = rest (splitList "#" .source) | join "#" }}
  {{- end }}
  {{- with trimAll "/" $folder }}
  subPath: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* ... as a folder of the container: dict "source" "path". */}}
{{- define "stoker.folder" -}}
{{- if hasPrefix "/" .source }}{{ .source }}{{ else }}{{ .path }}{{ end }}
{{- end }}

{{- define "stoker.modelArgs" -}}
- --model-repository={{ include "stoker.folder" (dict "source" .Values.model.source "path" "/mnt/models") }}
{{- with .Values.model.name }}
- --model-name={{ . }}
{{- end }}
{{- end }}

{{/* With the pod's GPUs: dict "root" $ "resources" RESOURCES. */}}
{{- define "stoker.resources" -}}
{{- $resources := deepCopy .resources }}
{{- with .root.Values.gpu }}
{{- if .count }}
{{- $_ := set $resources "limits" (merge (dict .resource (int .count)) ($resources.limits | default dict)) }}
{{- end }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{/* Fits both what compiles and what serves. */}}
{{- define "stoker.podSpec" -}}
serviceAccountName: {{ include "stoker.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or .Values.tolerations .Values.gpu.count }}
tolerations:
  {{- with .Values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- if .Values.gpu.count }}
  - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
  {{- end }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- end }}

{{/* The container that fills a cache: dict "root" $ "cache" FOLDER "volume" NAME "mount" FOLDER. */}}
{{- define "stoker.warmContainer" -}}
- name: warm
  image: {{ include "stoker.warmImage" .root | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [stokerd]
  args:
    - --warm-only
    {{- include "stoker.modelArgs" .root | nindent 4 }}
    - --cache={{ .cache }}
    - --log-level={{ .root.Values.server.logLevel }}
    {{- if .root.Values.gpu.count }}
    - --default-device=cuda:auto
    {{- end }}
  {{- with .root.Values.server.extraEnv }}
  env: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- toYaml .root.Values.securityContext | nindent 4 }}
  resources: {{- include "stoker.resources" (dict "root" .root "resources" (.root.Values.warm.resources | default .root.Values.resources)) | nindent 4 }}
  terminationMessagePolicy: FallbackToLogsOnError
  volumeMounts:
    {{- include "stoker.mount" (dict "name" "models" "source" .root.Values.model.source "path" "/mnt/models") | nindent 4 }}
    - name: {{ .volume }}
      mountPath: {{ .mount }}
    - name: tmp
      mountPath: /tmp
    {{- with .root.Values.server.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* The Secret with the server's certificate; empty where it speaks plain text. */}}
{{- define "stoker.tlsSecret" -}}
{{- if .Values.tls.secret }}{{ .Values.tls.secret }}
{{- else if .Values.tls.certManager.enabled }}{{ include "stoker.fullname" . }}-tls
{{- end }}
{{- end }}

{{/* What a kubelet asks. It speaks gRPC neither over TLS nor with a certificate: then the page, which asks the gRPC
service. dict "root" $ "service" NAME. */}}
{{- define "stoker.probe" -}}
{{- if include "stoker.tlsSecret" .root -}}
httpGet: {path: /health/{{ .service }}, port: metrics}
{{- else -}}
grpc: {port: 8001, service: {{ .service }}}
{{- end }}
{{- end }}

{{- define "stoker.check" -}}
{{- if not .Values.model.source }}
{{- fail "model.source is missing: where the model repository is, such as pvc://CLAIM/FOLDER, oci://IMAGE or /FOLDER" }}
{{- end }}
{{- with .Values.tls }}
{{- if and .secret .certManager.enabled }}
{{- fail "tls.secret and tls.certManager.enabled are both set: expected one certificate, of a Secret that exists or that cert-manager makes" }}
{{- end }}
{{- if and .certManager.enabled (not .certManager.issuer.name) }}
{{- fail "tls.certManager.issuer.name is missing: who signs the certificate" }}
{{- end }}
{{- if and .clients.names (not .clients.configMap) }}
{{- fail "tls.clients.configMap is missing: tls.clients.names are names in certificates of its authorities" }}
{{- end }}
{{- if and .clients.configMap (not (or .secret .certManager.enabled)) }}
{{- fail "tls.secret is missing: clients show certificates only to a server that has one" }}
{{- end }}
{{- end }}
{{- end }}
