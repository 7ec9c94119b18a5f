#include "tests/kernels/cases/activation.hpp"
#include "tests/kernels/cases/adamw.hpp"
#include "tests/kernels/cases/attention.hpp"
#include "tests/kernels/cases/cross_entropy.hpp"
#include "tests/kernels/cases/dropout.hpp"
#include "tests/kernels/cases/embedding.hpp"
#include "tests/kernels/cases/head_norm.hpp"
#include "tests/kernels/cases/linear.hpp"
#include "tests/kernels/cases/norm.hpp"
#include "tests/kernels/cases/rope.hpp"
#include "tests/kernels/cases/sum.hpp"

namespace troupe::tests {

std::vector<op_family> every_family() {
  return {activation_family(),
          adamw_family(),
          attention_family(),
          bias_family(),
          cross_entropy_family(),
          dropout_family(),
          embedding_family(),
          head_norm_family(),
          linear_family(),
          masked_loss_family(),
          norm_family(),
          pieces_family(),
          rope_family(),
          sum_family()};
}

}  // namespace troupe::tests
