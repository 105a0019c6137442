# Sourced by tests/deploy/install.sh and tests/deploy/run.sh: where the tools of these tests
# live. The folder changes with what is pinned, so that an old one is never taken for a new one.
helm_version=v3.22.0
kubernetes_minor=35 # of what helm renders for unless told otherwise, and of cluster/go.mod
kwok_version=v0.8.0
tools_lock=$repo_root/tests/deploy/requirements.lock
tools_folder() {
  local tag
  tag=$(
    {
      cat "$tools_lock" "$repo_root"/tests/deploy/{cluster,kserve}/go.mod
      echo "$helm_version $kubernetes_minor $kwok_version"
      "$base_python" --version
    } | sha256sum | cut -c1-12
  )
  printf '%s/deploy-tools-%s' "$STOKER_HOME" "$tag"
}
