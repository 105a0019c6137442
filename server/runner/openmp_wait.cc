// How long a thread of OpenMP's spins before it sleeps, at a barrier or for
// work, unless the environment says it already.
//
// A run on several cores waits at hundreds of barriers. libgomp's own bound is
// some milliseconds of spinning: beside one busy process, in a container with
// a quota or with more models than cores, those are milliseconds taken from the
// very thread that is waited for. This bound is some microseconds, longer than
// what a barrier takes where every thread has a core
// ("Waiting threads" in loadtest/results/README.md has the figures).
//
// With more threads than cores, counting those of models that nobody asks,
// libgomp spins a hundred turns only: each of the thousand barriers of some
// compiled runs then puts a thread to sleep and wakes it again, which took ten
// times as long as the run. By the "active" policy it is a thousand turns then,
// too, and never more than GOMP_SPINCOUNT (env.c of libgomp).
//
// libgomp reads its environment when it is loaded, long before main, and has no
// call for it. This is a shared library of its own, which the linker puts
// behind libgomp (torch.cmake): of two libraries that don't need each other,
// the one that is loaded later is initialised first. GOMP_SPINCOUNT and
// OMP_WAIT_POLICY of the environment win; OMP_DISPLAY_ENV=verbose shows what
// holds.
#include <cstdlib>

namespace {

__attribute__((constructor)) void BoundSpinning() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "active", /*overwrite=*/1);
  setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
}

}  // namespace
