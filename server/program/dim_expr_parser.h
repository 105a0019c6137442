// Reads the sizes that torch.export writes as text (sympy's srepr):
//   Symbol('s43', positive=True, integer=True)
//   Mul(Integer(384), Symbol('s53', positive=True, integer=True))
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tensor/dim_expr.h"

namespace stoker {

// `dimensions`: symbol → index of the dimension. DimExpr::Unknown for whatever
// can't be evaluated: a symbol that isn't in `dimensions` (its size depends on
// data), an operation DimExpr hasn't got, malformed or oversized text.
DimExpr ParseDimExpr(std::string_view text,
                     const std::map<std::string, int, std::less<>>& dimensions);

// "s43" when the whole text is one symbol, else empty.
std::string_view SymbolName(std::string_view text);

// "s43" when that is the one symbol in the text, however often; else empty.
std::string_view OnlySymbol(std::string_view text);

}  // namespace stoker
