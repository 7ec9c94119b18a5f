// The product choices file: the measured cuBLASLt algorithm for each matrix product. Format:
// docs/formats/products.md.

#pragma once

#include "kernels/backend/product_choice.hpp"

#include <filesystem>
#include <vector>

namespace troupe::runtime {

using kernels::product_choice;

/// ${XDG_CACHE_HOME:-~/.cache}/troupe/products.json; empty without a home directory.
std::filesystem::path default_product_choices();

/// Loads all choices; empty if the file does not exist. Throws input_error if the file is invalid:
/// it names the file and the place, and says that the file may be removed.
std::vector<product_choice> load_product_choices(const std::filesystem::path& path);

/// Whether the choices come from an older build that applied the GELU derivative in a separate
/// kernel; now it is fused into the product. True if there is a choice for a fused GELU product and
/// none for its gradient.
bool lack_gelu_gradient(const std::vector<product_choice>& choices);

/// The choice that wins when the file already has one for a product.
enum class standing : std::uint8_t {
  there,  ///< the one in the file: a choice is made once
  used,   ///< the new one: the file records what its run used
};

/// Merges choices into the file and replaces it atomically. Creates the folder if needed; writes
/// nothing if nothing changed. If two processes add at the same time, one may lose its additions,
/// which are measured again later; the file stays valid. Throws input_error as above, and io_error.
void add_product_choices(const std::filesystem::path& path,
                         const std::vector<product_choice>& more,
                         standing which = standing::there);

}  // namespace troupe::runtime
