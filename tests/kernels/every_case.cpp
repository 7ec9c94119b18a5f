#include "tests/kernels/cases/activation.hpp"
#include "tests/kernels/cases/adamw.hpp"
#include "tests/kernels/cases/attention.hpp"
#include "tests/kernels/cases/cross_entropy.hpp"
#include "tests/kernels/cases/dropout.hpp"
#include "tests/kernels/cases/embedding.hpp"
#include "tests/kernels/cases/expert_bias.hpp"
#include "tests/kernels/cases/grouped_linear.hpp"
#include "tests/kernels/cases/head_norm.hpp"
#include "tests/kernels/cases/heads.hpp"
#include "tests/kernels/cases/jitter.hpp"
#include "tests/kernels/cases/linear.hpp"
#include "tests/kernels/cases/momentum.hpp"
#include "tests/kernels/cases/norm.hpp"
#include "tests/kernels/cases/permute.hpp"
#include "tests/kernels/cases/relative_bias.hpp"
#include "tests/kernels/cases/rope.hpp"
#include "tests/kernels/cases/route.hpp"
#include "tests/kernels/cases/sinkhorn.hpp"
#include "tests/kernels/cases/sum.hpp"

#include <stdexcept>

namespace troupe::tests {

std::vector<op_family> every_family() {
#define TROUPE_FAMILY(family) family##_family(),
  return {TROUPE_EVERY_FAMILY(TROUPE_FAMILY)};
#undef TROUPE_FAMILY
}

op_family family_of_name(const std::string& name) {
#define TROUPE_FAMILY(family) \
  if (name == #family)        \
    return family##_family();
  TROUPE_EVERY_FAMILY(TROUPE_FAMILY)
#undef TROUPE_FAMILY
  throw std::logic_error("no family of operations has the name " + name);
}

}  // namespace troupe::tests
