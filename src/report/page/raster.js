// raster
