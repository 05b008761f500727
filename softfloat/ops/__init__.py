"""Operations on exact numbers and values, one file per family; nothing here rounds but through softfloat.rounding."""
